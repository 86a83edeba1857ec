"""Where to cut a model so that its stages take equally long on an emulated machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.layers import MOST_LAYERS, layer_ends
from tilestep.onnx.parts import Part, parts_of
from tilestep.onnx.values import jax_dtype
from tilestep.train import LayerCost, Partition, best_partition
from tilestep.train.backward import with_backward

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


def _costs(parts: Sequence[Part], devices: Sequence[Any], *, training: bool) -> list[LayerCost]:
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


def _work(part: Part, device: Any, known: dict[str, float], *, training: bool) -> float:
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
