"""tilestep as a backend of onnx: `tilestep.onnx.backend.run_model(model, inputs)`, and what onnx's own test runner takes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.graph import schema_of
from tilestep.onnx.model import OnnxModel, import_onnx

_PLATFORMS = {DeviceType.CPU: "cpu", DeviceType.CUDA: "cuda"}


class TilestepRep(BackendRep):
    """A model that is ready to run.

    Attributes: model: what `import_onnx` gives.
    """

    def __init__(self, model: OnnxModel, device: Any, *, compiled: bool) -> None:
        super().__init__()
        self.model, self._device, self._compiled = model, device, compiled

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as NumPy arrays. Random operators get the key `key`, or that of seed 0.

        Args: inputs: a list by position, a mapping by name, or one array.
        Raises: OnnxError for inputs that do not fit, or a node that cannot be computed.
        """
        key = kwargs.get("key")
        if not isinstance(inputs, Mapping):
            values: Sequence[Any] = inputs if isinstance(inputs, list | tuple) else [inputs]
            names = [value.name for value in self.model.loaded.proto.graph.input]
            own = [spec.name for spec in self.model.inputs]
            names = own if len(values) <= len(own) else names
            if len(values) > len(names):
                raise OnnxError(f"{len(values)} inputs are given, and the model takes {len(names)}")
            inputs = dict(zip(names, values, strict=False))
        with jax.default_device(self._device):
            key = jax.random.key(0) if key is None else key
            return tuple(self.model.run(inputs, key=key, compiled=self._compiled).values())


class TilestepBackend(Backend):
    """Runs models node by node: exact, with 64-bit types, and shapes may depend on values.

    Attributes: compiled: whether `run` compiles the model instead.
    """

    compiled: ClassVar[bool] = False

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether all operators have an implementation, and the device is there."""
        try:
            import_onnx(model)
        except OnnxError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> TilestepRep:
        """A model that is ready to run. Raises: OnnxError for a damaged model; ValueError for a device that is not there."""
        return TilestepRep(import_onnx(model), _device(device), compiled=cls.compiled)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model. Raises: as `prepare` and `run` do."""
        return cls.prepare(model, device).run(inputs, **kwargs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of one node.

        Args:
            inputs: by position, or a mapping by name.
            kwargs: `opset_version` is the version of the node's domain; the newest if it is not given.
        """
        version = int(kwargs.pop("opset_version", 0) or onnx.defs.onnx_opset_version())
        schema = schema_of(node.domain, node.op_type, version)
        imports = [helper.make_opsetid(node.domain, version if schema is None or not node.domain else schema.since_version)]
        names = [name for name in dict.fromkeys(node.input) if name]
        graph = helper.make_graph(
            [node],
            "node",
            [onnx.ValueInfoProto(name=name) for name in names],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        return cls.run_model(helper.make_model(graph, opset_imports=imports), inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether JAX has the device: "CPU", "CUDA:1", "IPU" or any other platform of JAX."""
        try:
            _device(device)
        except ValueError:
            return False
        return True


def _device(name: str) -> Any:
    """Raises: ValueError for a device that JAX does not have."""
    platform, _, number = name.partition(":")
    try:
        parsed = Device(name) if platform in ("CPU", "CUDA") else None
        devices = jax.devices(_PLATFORMS[parsed.type] if parsed is not None else platform.lower())
        return devices[int(number or 0)]
    except (RuntimeError, IndexError, ValueError, AttributeError, KeyError) as error:
        raise ValueError(f"there is no device {name!r}: {error}") from error


is_compatible = TilestepBackend.is_compatible
prepare = TilestepBackend.prepare
run_model = TilestepBackend.run_model
run_node = TilestepBackend.run_node
supports_device = TilestepBackend.supports_device
