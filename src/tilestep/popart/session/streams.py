"""How inputs and anchors pass between the host and the device, or stay there: which settings the options allow, and synthetic inputs.

Errors begin with the original's words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

import jax
import numpy as np
import onnx

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.settings import settings_of
from tilestep.popart.dataflow import Anchor, DataFlow
from tilestep.popart.diagnostics.log import warn
from tilestep.popart.enums import AnchorReturnTypeId, ExchangeStrategy, SyntheticDataMode, TileSet, VirtualGraphMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions

_OVERLAPPED: Final = (ExchangeStrategy.OverlapInnerLoop, ExchangeStrategy.OverlapLoops)
NO_OVERLAP: Final = "on the emulated machine a microbatch is computed when its inputs are there, and its anchors leave after that"
_RECURRENT: Final = frozenset({"GRU", "LSTM", "RNN"})  # their inputs have the batch behind the sequence


def require_streams(options: SessionOptions, flow: DataFlow, proto: onnx.ModelProto, inputs: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Checks how inputs and anchors are streamed, and warns of strategies that have no effect.

    Args:
        proto: the model, whose metadata has the settings of its inputs.
        inputs: shapes and dtypes of a microbatch, by name.
    Raises: popart_exception for a strategy that other options do not allow, or for parts of a batch that has fewer rows.
    """
    stated = settings_of(proto).inputs
    streams = [(f"anchor '{name}'", flow.art(name).tileSet(), flow.art(name).exchangeStrategy()) for name in flow.anchors()]
    streams += [(f"input '{name}'", settings.tileSet(), settings.exchangeStrategy()) for name, settings in stated.items() if name in inputs]
    for subject, tiles, strategy in streams:
        for problem in _problems(options, subject, tiles, strategy):
            raise popart_exception(problem)
    _require_loops(options, flow)
    _require_parts(options, proto, inputs)
    if overlapped := [subject for subject, _, strategy in streams if strategy in _OVERLAPPED]:
        warn(f"The ExchangeStrategy of {', '.join(overlapped)} has no effect: {NO_OVERLAP}.")


def _problems(options: SessionOptions, subject: str, tiles: TileSet, strategy: ExchangeStrategy) -> Iterator[str]:
    placed = options.virtualGraphMode is not VirtualGraphMode.Off
    if strategy is ExchangeStrategy.OverlapStep:
        yield f"ExchangeStrategy::OverlapStep is not yet supported. It is that of {subject}: take OverlapInnerLoop or OverlapLoops."
    if strategy in _OVERLAPPED and not (options.useHostCopyOps and options.enableExplicitMainLoops and placed):
        yield (
            "ExchangeStrategy::OverlapInnerLoop, ExchangeStrategy::OverlapLoops require SessionOptions::useHostCopyOps, "
            "SessionOptions::enableExplicitMainLoops, VirtualGraphMode::(Manual, Auto, ExecutionPhases) to be enabled. "
            f"The strategy of {subject} is {strategy.name}: call enableExplicitIR(True) and set virtualGraphMode, or take JustInTime."
        )
    if tiles is TileSet.IO and placed and int(options.numIOTiles) == 0:
        yield f"No IO tile graph for index 0: {subject} is streamed by I/O tiles, and numIOTiles is 0. Set it to 32 or more."


def _require_loops(options: SessionOptions, flow: DataFlow) -> None:
    """Raises: popart_exception for an anchor that loops in the program can't return."""
    if not options.enableExplicitMainLoops:
        return
    for name in flow.anchors():
        if flow.art(name).id() is AnchorReturnTypeId.EveryN:
            raise popart_exception(
                f'[MainLoops] AnchorReturnType::EveryN for Tensor "{name}" is unsupported when explicit main loops are enabled. Supported '
                "anchor return types are AnchorReturnTypeId::All and AnchorReturnTypeId::Sum, and Final too."
            )


def _require_parts(options: SessionOptions, proto: onnx.ModelProto, inputs: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Raises: popart_exception for an input that can't be cut into the parts of batchSerializationSettings."""
    factor = options.batchSerializationSettings.factor
    if factor <= 1:
        return
    for name, spec in inputs.items():
        axis = _batch_axis(proto.graph, name)
        if axis is None or axis >= len(spec.shape):
            continue
        rows = spec.shape[axis]
        if rows < factor:
            raise popart_exception(
                f"Batch axis: {rows} is smaller than the batch serialization factor: {factor} for tensor {name}. "
                "Lower batchSerializationSettings.factor."
            )
        if rows % factor:
            raise popart_exception(
                f"Batch serialisation failed while processing tensor {name}: its batch of {rows} can't be cut into {factor} equal parts. "
                "Set batchSerializationSettings.factor to a divisor."
            )


def _batch_axis(graph: onnx.GraphProto, name: str) -> int | None:
    """The axis along which an input has its batch: its first reader decides; None if nothing reads it."""
    for node in graph.node:
        if name in node.input:
            return 1 if node.op_type in _RECURRENT else 0
    return None


_INPUT_SEED: Final = 5489  # as the original's generator has it


def is_synthetic(options: SessionOptions) -> bool:
    """Whether a session's inputs are synthetic."""
    return options.syntheticDataMode != SyntheticDataMode.Off


def left_on_device(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Anchors as they are computed if none is returned: the device has their last values."""
    return [replace(anchor, kind=AnchorReturnTypeId.Final, period=1) for anchor in anchors]


@final
class Synthetic:
    """Synthetic inputs of a session: made once, the same for each microbatch, replica and run.

    Attributes:
        off: whether the host gives the inputs.
    """

    def __init__(self, mode: SyntheticDataMode) -> None:
        self.off = mode == SyntheticDataMode.Off
        self._mode = mode
        self._arrays: dict[str, Array] | None = None

    def arrays(self, inputs: Mapping[str, jax.ShapeDtypeStruct], types: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, Array]:
        """The inputs of a step. Args: inputs: shapes and dtypes on one replica, by name. types: as the program takes them."""
        if self._arrays is None:
            self._arrays = {
                name: np.array(np.broadcast_to(self._array(spec.shape, np.dtype(spec.dtype)), types[name].shape))
                for name, spec in inputs.items()
            }
        return self._arrays

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        generator = np.random.default_rng(_INPUT_SEED)
        if self._mode in (SyntheticDataMode.Off, SyntheticDataMode.Zeros):
            return np.zeros(shape, dtype)
        if self._mode == SyntheticDataMode.RandomNormal:
            values = generator.standard_normal(shape)
            return values.astype(dtype) if dtype.kind == "f" else values.astype(np.int64).astype(dtype)
        return _uniform(generator, shape, dtype)


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Over the whole range of a type."""
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return generator.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    limit = float(np.finfo(dtype).max)
    return (generator.uniform(-1, 1, shape) * limit).astype(dtype)
