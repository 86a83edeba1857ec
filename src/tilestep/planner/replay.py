"""Plays a candidate: two updates of its pipeline in a dry run, on a machine beside the process's."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from jax.sharding import NamedSharding

from tilestep.errors import StreamingMemoryError
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import machine_beside
from tilestep.plan.memory.streaming import check_streaming_memory
from tilestep.planner.model import Model
from tilestep.planner.search import Replayed
from tilestep.planner.sharding import divided, meshes_of
from tilestep.planner.space import Candidate
from tilestep.profiling.plugin import initialize
from tilestep.sim import EventKind, System
from tilestep.sim.mark import cycles_between
from tilestep.train import LayerCost, Partition, Pipeline
from tilestep.train.other_arguments import devices_of, name_of
from tilestep.train.untyped import jax as _jax

_UPDATES: Final = 2  # the first loads the programs, and each further one takes as long as the second
_BESIDE: Final = ("io-in", "io-out")  # kinds of cycles that take no time of their own


@dataclass(frozen=True, kw_only=True)
class PlayedCandidate:
    """What a candidate takes.

    Attributes:
        cycles: of an update, once programs are loaded.
        kinds: of the IPU that works longest in it, cycles by kind.
        works: mean share of an update in which the IPUs in use work.
        ipu: whose tiles are the fullest.
        parts: (kind, bytes) on its fullest tile, which add up to what it needs.
        lacks: of memory that is not enough, in words; '' if all fits.
        shown: for the search.
    """

    cycles: int
    kinds: Mapping[EventKind, int]
    works: float
    ipu: int
    parts: Mapping[str, int]
    lacks: str
    shown: Replayed


def pipeline_of(model: Model, candidate: Candidate, optimizer: Any, devices: Any) -> Pipeline:
    """The candidate's pipeline. Args: devices: None: JAX's."""
    devices = _enough(candidate, devices)
    offload: Any = candidate.offloads_state
    if candidate.offloads_accumulators:
        offload = {"optimizer_state": candidate.offloads_state, "accumulators": True}
    return Pipeline(
        partition_of(model, candidate).stages(model.layers if model.specs is None else divided(model.layers, candidate, devices)),
        optimizer,
        candidate.accumulation,
        pipeline_schedule=candidate.schedule,
        reduction="mean",
        devices=devices,
        device_mapping=candidate.homes if model.specs is None else meshes_of(candidate, devices),
        replicas=candidate.replicas,
        recompute=candidate.recompute,
        tied=_ties(model, candidate),
        offload_optimizer_state=offload,
        offload_activations=candidate.offloads_activations,
        shard_optimizer_state=candidate.divides_state,
        plan_options=model.options,
        strict=False,
    )


def _ties(model: Model, candidate: Candidate) -> list[list[tuple[Any, ...]]]:
    """Paths of the pipeline's parameters that are one: (stage, the layer's place in it, keys below)."""

    def path(layer: int, keys: Sequence[Any]) -> tuple[Any, ...]:
        stage = bisect_right(candidate.stages, layer) - 1
        return stage, layer - candidate.stages[stage], *keys

    return [[path(*each) for each in tie] for tie in model.ties]


def split(model: Model, candidate: Candidate, params: Sequence[Any], devices: Any) -> list[Any]:
    """What the candidate's pipeline takes as parameters, divided over the IPUs of each stage."""
    stages = partition_of(model, candidate).split(params)
    if candidate.shards == 1 or model.specs is None:
        return stages
    for own, mesh, span in zip(stages, meshes_of(candidate, _enough(candidate, devices)), candidate.spans(), strict=True):
        for index, layer in enumerate(range(*span)):
            leaves, structure = _jax.tree.flatten(own[index])
            shardings = [NamedSharding(mesh, spec) for spec in model.specs[layer]]
            own[index] = _jax.tree.unflatten(structure, _jax.device_put(leaves, shardings))
    return stages


def _enough(candidate: Candidate, devices: Any) -> tuple[Any, ...]:
    found = tuple(_jax.devices()) if devices is None else devices_of(devices)
    if len(found) < candidate.num_ipus:
        raise ValueError(f"the plan needs {candidate.num_ipus} IPUs, but devices has {len(found)}: set TILESTEP_MACHINE to its machine")
    return found


def partition_of(model: Model, candidate: Candidate) -> Partition:
    """The candidate's stages; its costs are the layers' parameters in bytes."""
    costs = tuple(
        LayerCost(name=name_of(layer), work=float(sum(leaf.size * leaf.dtype.itemsize for leaf in _jax.tree.leaves(own))))
        for layer, own in zip(model.layers, model.params, strict=True)
    )
    return Partition(cuts=candidate.stages, costs=costs, unit="B of parameters")


def played(model: Model, candidate: Candidate, optimizer: Any, spec: MachineSpec) -> PlayedCandidate:
    """Plays a candidate. It may not fit: `lacks` says so."""
    initialize()
    machine = machine_beside(_of_one_replica(spec, candidate), PlanOptions())
    player = machine.player()
    try:
        with machine.running(player):
            pipeline = pipeline_of(model, candidate, optimizer, machine.devices)
            state = pipeline.init(split(model, candidate, _zeros(list(model.params)), machine.devices))
            axes = (candidate.accumulation, *((candidate.replicas,) if candidate.replicas > 1 else ()))
            batch = _zeros(model.arguments(candidate.microbatch)[0], axes)
            before = after = player.mark()
            for _ in range(_UPDATES):
                before = player.mark()
                state, outputs = pipeline.step(state, batch)
                _jax.block_until_ready((state, outputs))
                after = player.mark()
    except Exception as error:
        error.add_note(f"raised by the plan of {candidate.text}")
        raise
    cycles = after.cycle - before.cycle
    spent: dict[int, dict[EventKind, int]] = {
        ipu: {kind: own for kind, own in kinds.items() if kind not in _BESIDE and own}
        for ipu, kinds in cycles_between(before, after).items()
    }
    ipu, parts = _fullest(player.system, candidate.num_ipus)
    fullness, lacks = _lacks(player.system, spec, ipu, sum(parts.values()))
    return PlayedCandidate(
        cycles=cycles,
        kinds=max(spent.values(), key=lambda kinds: sum(kinds.values())),
        works=sum(sum(kinds.values()) for kinds in spent.values()) / (candidate.num_ipus * cycles),
        ipu=ipu,
        parts=parts,
        lacks=lacks,
        shown=Replayed(cycles=cycles, fullness=fullness, fits=not lacks),
    )


def _of_one_replica(spec: MachineSpec, candidate: Candidate) -> MachineSpec:
    """The machine with no more IPUs simulated than differ: those of a replica, or of the replicas that share a host link or a rung."""
    alike = math.lcm(candidate.num_ipus // candidate.replicas, spec.simulated_unit)
    fills = candidate.num_ipus % alike == 0 and spec.num_ipus % alike == 0
    return replace(spec, simulated_ipus=alike if fills and alike < spec.num_ipus else 0)


def _fullest(system: System, num_ipus: int) -> tuple[int, dict[str, int]]:
    """(the IPU whose tiles are the fullest, what is on the fullest tile there)."""
    ipu = max(range(num_ipus), key=lambda ipu: system.tile_use(ipu).peak_bytes)
    use = system.tile_use(ipu)
    members = [program for (_, of), group in system.mark().groups.items() if of == ipu for program in group.members]
    waiting = use.waiting_bytes(system.programs[key] for key in members)
    parts = {
        "code": use.code_bytes - use.shared_bytes,
        "stacks": use.fixed_bytes,
        "values that stay": use.resident_bytes,
        "values of one program": use.transient_bytes - waiting,
        "values that wait": waiting,
    }
    return ipu, {kind: size for kind, size in parts.items() if size}


def _lacks(system: System, spec: MachineSpec, ipu: int, needed: int) -> tuple[float, str]:
    """(what is needed of the memory that lacks most, as a part of what there is, the same in words; '' if all fits)."""
    tile = spec.ipu.tile
    code = max(program.memory.instruction_bytes for program in system.programs.values())
    needs = [
        (needed / tile.sram_bytes, f"{needed:,} B on a tile of IPU {ipu}, which has {tile.sram_bytes:,} B"),
        (code / tile.executable_bytes, f"{code:,} B of code on a tile, which holds {tile.executable_bytes:,} B of it"),
    ]
    for program in system.programs.values():
        try:
            check_streaming_memory(program, spec, range(program.num_ipus))
        except StreamingMemoryError as error:
            most, has = error.needed_bytes, error.available_bytes
            needs.append((most / has, f"{most:,} B of the streaming memory of an IPU-Machine, which has {has:,} B"))
    fullness, words = max(needs)
    return fullness, f"it needs {words}: {fullness:.2f} times as much" if fullness > 1 else ""


def _zeros(shapes: Any, axes: tuple[int, ...] = ()) -> Any:
    """Arrays that take no memory. Args: axes: before those of each shape."""

    def of(leaf: Any) -> Any:
        return np.broadcast_to(np.zeros((), leaf.dtype), (*axes, *leaf.shape))

    return _jax.tree.map(of, shapes)
