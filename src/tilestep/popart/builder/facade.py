"""The Builder: a graph under construction with all that can be said of it, and the choice of ONNX's version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Union, cast, final

import numpy as np

from tilestep.popart.builder import external
from tilestep.popart.builder.graph.model import GraphModel
from tilestep.popart.builder.graph.nodes import BuilderOperator, add_operator
from tilestep.popart.builder.loading import check_model, check_opsets, checked_model
from tilestep.popart.builder.node_attributes import Tuning
from tilestep.popart.builder.opsets.graphcore_opset import AiGraphcoreOpset1
from tilestep.popart.builder.opsets.graphcore_opset import AiGraphcoreOpset1 as _GraphcoreOpset1
from tilestep.popart.builder.opsets.onnx_opsets import (
    DEFAULT_VERSION,
    OPSETS,
    AiOnnxMlOpset1,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
)
from tilestep.popart.builder.opsets.signatures import IDS, INT, STR, ArgumentKind, Mismatch, SignatureParameter, overloaded
from tilestep.popart.builder.placement import Placement
from tilestep.popart.builder.tensors_of_graph import TensorsOfGraph
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.former import BUILDER_METHODS, takes_former_names


def _attribute_dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mismatch
    return {str(name): _custom_value(str(name), one) for name, one in value.items()}


def _custom_value(name: str, value: object) -> object:
    """A text, a number or a list of numbers of one kind. Raises: popart_exception for something else."""
    if isinstance(value, (str, int, float)):
        return value
    if not isinstance(value, list):
        raise popart_exception(f"Invalid type provided in custom op attribute '{name}'")
    items = cast("list[object]", value)
    if all(isinstance(item, int) for item in items) or all(isinstance(item, float) for item in items):
        return items
    raise popart_exception(f"Invalid or mismatched python list type provided in custom op attribute '{name}'")


_CUSTOM: Final = (
    SignatureParameter("opName", STR),
    SignatureParameter("opVersion", INT),
    SignatureParameter("domain", STR),
    SignatureParameter("inputs", IDS),
    SignatureParameter("attributes", ArgumentKind(label="dict", convert=_attribute_dict)),
    SignatureParameter("numOutputs", INT, 1),
    SignatureParameter("name", STR, ""),
)
_FILENAME: Final = SignatureParameter("filename", STR)


def _operators(kind: Callable[[GraphModel], Any], what: str) -> Any:
    """A property with the operators of a version for a builder's graph."""
    return property(lambda core: kind(core._model), doc=f"Operators of {what}.")


@final
class _BuilderCore(TensorsOfGraph, Placement, Tuning):  # the original's name
    """A graph under construction.

    Args: modelProtoOrFilename: a model to go on with, in bytes or the name of its file; None for an empty graph.
    Raises: popart_exception if it is no model, breaks ONNX's rules, or is of a version beyond 6 to 11.
    """

    def __init__(self, modelProtoOrFilename: str | bytes | None = None, *, parent: GraphModel | None = None) -> None:
        proto = None
        if modelProtoOrFilename is not None:
            proto = checked_model(modelProtoOrFilename)
            check_opsets(proto)
        super().__init__(GraphModel(parent, proto))

    def _createSubgraphBuilder(self) -> _BuilderCore:  # the original's name
        """The core of a builder for a graph inside this one."""
        return _BuilderCore(parent=self._model)

    aiOnnxOpset6 = _operators(AiOnnxOpset6, "ONNX's version 6")
    aiOnnxOpset7 = _operators(AiOnnxOpset7, "ONNX's version 7")
    aiOnnxOpset8 = _operators(AiOnnxOpset8, "ONNX's version 8")
    aiOnnxOpset9 = _operators(AiOnnxOpset9, "ONNX's version 9")
    aiOnnxOpset10 = _operators(AiOnnxOpset10, "ONNX's version 10")
    aiOnnxOpset11 = _operators(AiOnnxOpset11, "ONNX's version 11")
    aiOnnxMlOpset1 = _operators(AiOnnxMlOpset1, "ai.onnx.ml's version 1")
    aiGraphcoreOpset1 = _operators(AiGraphcoreOpset1, "ai.graphcore's version 1")

    @overloaded((SignatureParameter("name", STR),))
    def setGraphName(self, name: str) -> None:
        """Names the graph. The empty name is replaced by a number."""
        self._model.set_name(name)

    @overloaded(_CUSTOM, returns="List[str]")
    def customOp(
        self, opName: str, opVersion: int, domain: str, inputs: list[str], attributes: dict[str, Any], numOutputs: int, name: str
    ) -> list[str]:
        """Adds an operator of one's own, which `tilestep.onnx.register_op(domain, opName)` implements.

        Returns: the outputs' ids. The builder knows their shapes if the operator is registered, and takes the shapes of the inputs.
        Raises: popart_exception for an attribute that is no text, number or list of numbers of one kind.
        """
        operator = BuilderOperator(domain=domain or "ai.onnx", name=opName)
        return add_operator(self._model, operator, 1, inputs, attributes, name=name, outputs=numOutputs)

    def getModelProto(self) -> bytes:
        """The model so far."""
        return self._model.proto.SerializeToString()

    @overloaded((_FILENAME,))
    def saveModelProto(self, filename: str) -> None:
        """Writes the model to a file. Raises: popart_exception if it breaks ONNX's rules."""
        check_model(self._model.proto)
        Path(filename).write_bytes(self.getModelProto())

    @overloaded((SignatureParameter("ids", IDS), _FILENAME))
    def saveInitializersExternally(self, ids: list[str], filename: str) -> None:
        """Moves variables' values into a file, of which the model keeps the name.

        Raises: popart_exception if a tensor is no variable or stands in a file already, or the file's folder is not there.
        """
        external.save(self._model.proto, ids, filename)


defaultAiOnnxOpset: Final = DEFAULT_VERSION
defaultAiOnnxMlOpset: Final = 1
defaultAiGraphcoreOpset: Final = 1
_DEFAULTS: Final = {"ai.onnx": defaultAiOnnxOpset, "ai.graphcore": defaultAiGraphcoreOpset}


class Opset:
    """Operators of one version of a domain. Attributes: version: of the domain."""

    def __init__(self, builder: Builder, version: int, operators: Any) -> None:
        self._builder, self.version, self._operators = builder, version, operators

    def __getattr__(self, name: str) -> Any:
        """An operator's method. Raises: AttributeError if there is no such operator."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._operators, name)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *dir(self._operators)})


class AiOnnx(Opset):
    """Operators of one version of ONNX."""

    def __str__(self) -> str:
        return f"AiOnnx{self.version}"


class AiOnnxMl(Opset):
    """Operators of ai.onnx.ml."""

    def __init__(self, builder: Builder, version: int) -> None:
        if version != defaultAiOnnxMlOpset:
            raise ValueError(f"Unsupported or unrecognized ai.OnnxMl version: {version}")
        super().__init__(builder, version, builder.aiOnnxMlOpset1)


class AiGraphcore(Opset):
    """Operators of ai.graphcore."""

    def __init__(self, builder: Builder, version: int) -> None:
        if version != defaultAiGraphcoreOpset:
            raise ValueError(f"Unsupported or unrecognized ai.graphcore version: {version}")
        super().__init__(builder, version, builder.aiGraphcoreOpset1)


class Builder:
    """Builds a model as a graph of operators.

    The first access to operators of ONNX decides the version for all: `aiOnnx` is version 10 unless another was decided before.

    Args:
        modelProtoOrFilename: a model to go on with, in bytes or the name of its file.
        opsets: versions of "ai.onnx" and "ai.graphcore"; both must be given.
        builderCore: the core of a subgraph's builder.

    Raises: KeyError if `opsets` lacks a domain; ValueError for a version that is not supported; popart_exception for what is no model.
    """

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: Mapping[str, int] | None = None,
        builderCore: _BuilderCore | None = None,
    ) -> None:
        self._impl = _BuilderCore(modelProtoOrFilename) if builderCore is None else builderCore
        versions = opsets or _DEFAULTS
        graphcore, onnx_version = versions["ai.graphcore"], versions["ai.onnx"]
        if onnx_version not in OPSETS:
            raise ValueError(f"Unsupported or unrecognized ai.Onnx version: {onnx_version}")
        self.aiGraphcore = AiGraphcore(self, graphcore)
        self.aiGraphcoreOpset1: AiGraphcore = self.__dict__["aiGraphcore"]
        self._onnx_version = onnx_version if opsets else None

    def _onnx(self, name: str) -> AiOnnx:
        if name == "aiOnnx":
            version = self._onnx_version or defaultAiOnnxOpset
        else:
            number = name.removeprefix("aiOnnxOpset")
            if not number.isdecimal() or int(number) not in OPSETS:
                raise AttributeError(f"'Builder' object has no attribute '{name}'")
            version = int(number)
        if self._onnx_version is None:
            self._onnx_version = version
        if version != self._onnx_version:
            raise RuntimeError(f"Invalid opset '{name}' selected. Opset for domain ai.onnx already defined as {self._onnx_version}")
        return AiOnnx(self, version, getattr(self._impl, f"aiOnnxOpset{version}"))

    def __getattr__(self, name: str) -> Any:
        """Operators of ONNX, and all that the core has.

        Raises: RuntimeError if another version of ONNX has been decided; AttributeError for an unknown name.
        """
        if name.startswith("aiOnnx") and not name.startswith("aiOnnxMl"):
            return self._onnx(name)
        if name == "_impl":
            raise AttributeError(name)
        return getattr(self._impl, BUILDER_METHODS.get(name, name))

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *dir(self._impl), "aiOnnx"})

    @takes_former_names
    def reshape_const(self, aiOnnx: AiOnnx, args: list[str], shape: Iterable[int], debugContext: str = "") -> str:
        """Reshapes the first of `args`. Args: aiOnnx: operators of ONNX, such as `builder.aiOnnx`. Returns: the id."""
        name = f"{debugContext}_const" if isinstance(debugContext, str) else debugContext
        new_shape = aiOnnx.constant(np.array(list(shape), np.int64), name)
        return aiOnnx.reshape([args[0], new_shape], debugContext)

    def createSubgraphBuilder(self) -> Builder:
        """A builder for a graph inside this one, which operators such as If, Loop and Call take."""
        return Builder(builderCore=self._impl._createSubgraphBuilder())  # the original's name


# What the original's stubs say; a runtime annotation, because it is read from there.
Builder.__getattr__.__annotations__["return"] = Union[  # noqa: UP007  # `|` has no __args__ for all of them
    _GraphcoreOpset1, AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8, AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11
]
