"""Cuts a model into stages for `tilestep.train.Pipeline`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, final

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.interpreter.demand import statistics
from tilestep.onnx.interpreter.graph import reads
from tilestep.onnx.interpreter.values import Array, is_known, jax_dtype
from tilestep.onnx.stages.layers import MOST_LAYERS, layer_ends
from tilestep.onnx.stages.parts import Finish, ModelPart, evaluated, parts_of
from tilestep.train import LayerCost, Partition, best_partition
from tilestep.train.backward import with_backward

if TYPE_CHECKING:
    from tilestep.train import Partition

_LAYERS_PER_STAGE: Final = 12
_AXIS: Final = "ipus"
_OPTIONS: Final[dict[str, str | bool]] = {
    "ipu_allow_out_of_memory": True
}  # a layer may be larger than an IPU; its stage says so when it is compiled


def balanced(
    model: ModelFunction, values: Mapping[str, Any], stages: int, *, outputs: Sequence[str], machine: str | None, training: bool
) -> tuple[list[int], Partition]:
    """(for each node the number of its stage, the costs).

    Args:
        values: of `evaluated`.
        machine: a name or file of one; None: that of the process.
        training: whether costs include backward.
    Raises: OnnxError for a number of stages that is none, and where platform `ipu` cannot be reached.
    """
    if isinstance(stages, bool) or stages < 1:
        raise OnnxError(f"stages is {stages!r}: it must be a number of stages, at least 1, or a list of values to cut at")
    ends = layer_ends(model, values, min(MOST_LAYERS, _LAYERS_PER_STAGE * stages))
    layers = [0] * len(model.graph.nodes)
    for layer, (first, after) in enumerate(pairwise([0, *ends])):
        layers[first:after] = [layer] * (after - first)
    parts = parts_of(model, values, layers, outputs)
    try:
        devices = topologies.get_topology_desc(machine or "", platform="ipu").devices
    except Exception as error:  # JAX's, which says what it is
        raise OnnxError(f"stages are balanced on an emulated machine, which cannot be had: {error}") from error
    costs = _costs(parts, devices, training=training)
    partition = best_partition(costs, stages, unit="cycles")
    homes = [0] * len(layers)
    for stage, (first, after) in enumerate(pairwise(partition.cuts)):
        homes = [stage if first <= layer < after else home for layer, home in zip(layers, homes, strict=True)]
    return homes, partition


def _costs(parts: Sequence[ModelPart], devices: Sequence[Any], *, training: bool) -> list[LayerCost]:
    known: dict[str, float] = {}  # by text of a program
    costs: list[LayerCost] = []
    for number, part in enumerate(parts):
        passing = 0.0
        if number < len(parts) - 1 and len(devices) > 1:
            passing = _passing(parts[number + 1].shapes, devices) * (2 if training else 1)
        nodes = part.graph.nodes
        name = (nodes[-1].name or nodes[-1].outputs[0]) if nodes else "nothing"
        costs.append(LayerCost(name=name, work=_work(part, devices[0], known, training=training), passing=passing))
    return costs


def _work(part: ModelPart, device: Any, known: dict[str, float], *, training: bool) -> float:
    """Cycles of a part, forward and, in training, backward. Args: known: costs of programs by their text."""
    place = SingleDeviceSharding(device)
    function = part.function()

    def spec(array: Any) -> Any:
        return jax.ShapeDtypeStruct(array.shape, jax_dtype(array.dtype), sharding=place)

    own = [
        {name: spec(array) for name, array in weights.items()} for weights in (part.params, part.state) if weights or weights is part.params
    ]
    arguments = [*own, *map(spec, part.shapes)]

    lowered = jax.jit(with_backward(function) if training else function).lower(*arguments)
    text = lowered.as_text().partition("{")[2]  # without the module's name
    if text not in known:
        known[text] = _cycles(lowered.compile(compiler_options=_OPTIONS))
    return known[text]


def _passing(shapes: Sequence[Any], devices: Sequence[Any]) -> float:
    """Cycles to pass arrays on to the next IPU."""
    mesh = Mesh(np.array(devices[:2]), (_AXIS,))
    over = PartitionSpec(_AXIS)

    def send(arrays: Sequence[Any]) -> list[Any]:
        return [jax.lax.ppermute(array, _AXIS, [(0, 1)]) for array in arrays]

    arrays = [jax.ShapeDtypeStruct((2, *shape.shape), shape.dtype, sharding=NamedSharding(mesh, over)) for shape in shapes]
    program = jax.jit(jax.shard_map(send, mesh=mesh, in_specs=(over,), out_specs=over))
    return _cycles(program.lower(arrays).compile(compiler_options=_OPTIONS)) if arrays else 0.0


def _cycles(compiled: Any) -> float:
    return float(compiled.cost_analysis()["ipu cycles"])


Cuts = Sequence[str | Sequence[str]]
Loss = str | Callable[..., Any] | None
Weights = dict[str, Array]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Stages:
    """A model in stages. It unpacks into what `Pipeline` and its `init` take: `stages, params, tied = model.stages(...)`.

    Attributes:
        stages: functions (params, *values) -> values for the next stage. What the microbatch has beyond the model's inputs is passed on.
        params: for each stage its parameters by name.
        tied: paths of parameters that several stages have, for `Pipeline(tied=...)`.
        aux: for each stage its state in training, or None; for `init`.
        passed: names of the values that each stage but the last passes on.
        partition: the costs, where stages have been balanced; None where they have been named.
    """

    stages: list[Callable[..., Any]]
    params: list[Weights]
    tied: list[list[tuple[int, str]]]
    aux: list[Weights | None]
    passed: tuple[tuple[str, ...], ...]
    partition: Partition | None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.stages, self.params, self.tied))


def stages_of(
    model: ModelFunction,
    cuts: int | Cuts,
    *,
    sizes: Mapping[str, int],
    loss: Loss,
    machine: str | None,
    training: bool | None,
) -> Stages:
    """The model in stages; see `OnnxModel.stages`."""
    names = [spec.name for spec in model.outputs]
    if isinstance(loss, str):
        if loss not in names:
            raise OnnxError(f"loss is '{loss}', and the model's outputs are {', '.join(names)}")
        names = [loss, *(name for name in names if name != loss)]
    values = evaluated(model, sizes)
    partition = None
    if isinstance(cuts, int):
        gradients = (model.training or loss is not None) if training is None else training
        homes, partition = balanced(model, values, cuts, outputs=names, machine=machine, training=gradients)
    else:
        homes = _homes(model, values, cuts)
    parts = parts_of(model, values, homes, names)
    _require_one_home(model, parts)
    last = len(parts) - 1
    return Stages(
        stages=[part.function(_finish(loss) if number == last else None) for number, part in enumerate(parts)],
        params=[dict(part.params) for part in parts],
        tied=[
            [(number, name) for number, part in enumerate(parts) if name in part.params]
            for name in model.params
            if sum(name in part.params for part in parts) > 1
        ],
        aux=[dict(part.state) or None for part in parts],
        passed=tuple(tuple(part.graph.outputs) for part in parts[:-1]),
        partition=partition,
    )


def _homes(model: ModelFunction, values: Mapping[str, Any], cuts: Cuts) -> list[int]:
    """For each node the number of its stage: the first whose cut depends on it, else the last.

    Raises: OnnxError for a value that no node computes, or a cut that no node leads to after the one before.
    """
    if isinstance(cuts, str):
        raise OnnxError(f"cuts is the text '{cuts}': it must be a list of values' names, such as ['{cuts}'], or a number of stages")
    makers = {name: number for number, node in enumerate(model.graph.nodes) for name in node.outputs if name}
    homes = [len(cuts)] * len(model.graph.nodes)
    for stage, cut in enumerate(cuts):
        ends = [cut] if isinstance(cut, str) else list(cut)
        for name in ends:
            if name not in makers or is_known(values[name]):
                why = "its value depends on shapes alone" if name in makers else "no node makes it"
                raise OnnxError(f"cuts names '{name}', at which the model can't be cut: {why}")
        waiting = [makers[name] for name in ends]
        if all(homes[number] < stage for number in waiting):
            raise OnnxError(f"cuts has '{ends[0]}' in place {stage}, but stages before it compute that already: change the order")
        while waiting:
            number = waiting.pop()
            if homes[number] > stage:
                homes[number] = stage
                waiting += [makers[name] for name in reads(model.graph.nodes[number]) if name in makers]
    return homes


def _require_one_home(model: ModelFunction, parts: Sequence[ModelPart]) -> None:
    """Raises: OnnxError for statistics that several stages would change."""
    for name in statistics(model.graph) & model.state.keys():
        homes = [number for number, part in enumerate(parts) if name in part.state]
        if len(homes) > 1:
            raise OnnxError(f"state '{name}' would be changed in stages {homes[0]} and {homes[1]}: cut so that one has it")


def _finish(loss: Loss) -> Finish:
    """What the last stage returns: the loss alone or before all others; without `loss` the outputs, a single one by itself."""

    def finish(outputs: Sequence[Any], others: Sequence[Any]) -> Any:
        if callable(loss):
            return loss(*outputs, *others)
        results = (*outputs, *others)
        return results[0] if len(results) == 1 else results

    return finish
