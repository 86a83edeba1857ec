"""Makes the state with which a pipeline begins, from the parameters that its author gives."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Never

import jax
from jax.sharding import NamedSharding, Sharding

from tilestep.train.feeds.narrow import require_held
from tilestep.train.offload import placed
from tilestep.train.pipeline.compile.packing import unpacked
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.programs import KnownPrograms, make_updates
from tilestep.train.pipeline.compile.stage import Packings, Stage
from tilestep.train.pipeline.compile.tracing import spec_of
from tilestep.train.pipeline.compile.updates.tied import leaves_tied, require_equal
from tilestep.train.pipeline.run.state import RunState, StageState, with_one_array
from tilestep.train.processes.remote import Put, remote_array
from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def first_state(spec: PipelineSpec, params: Sequence[Pytree], aux: Sequence[Pytree], put: Put, known: KnownPrograms) -> RunState:
    """Copies of parameters and auxiliary state on the stages' devices, and the optimiser's state of them.

    Where the optimiser is a function of the last stage's outputs, it has no state yet.

    Args:
        params, aux: an entry for each stage.
        put: brings arrays to other devices.
        known: as for `make_all`.
    Raises:
        ValueError: for tied parameters that differ.
        Exception: of the optimiser.
    """
    ties = leaves_tied(spec.ties, params)
    require_equal(ties, params)
    state = with_one_array(_on_devices(spec, params, aux), ties)
    plan = spec.optimizer
    if plan is None or plan.is_function:
        return state
    stubs = [
        _stub(number, function.placement, own.params)
        for number, (function, own) in enumerate(zip(spec.functions, state.stages, strict=True))
    ]
    nothing = Packings(params=unpacked(()), accumulators=unpacked(()), values=False)  # no gradients are added up
    updates, joint, _ = make_updates(stubs, [nothing for _ in stubs], spec, plan, ties, known)
    trained = [[_jax.tree.leaves(own.params)[index] for index in update.trained] for own, update in zip(state.stages, updates, strict=True)]
    if joint is not None:
        return replace(state, joint=joint.init(trained, (), put))
    stages = [
        replace(own, optimizer_state=update.init(leaves, ())) for own, update, leaves in zip(state.stages, updates, trained, strict=True)
    ]
    return replace(state, stages=tuple(stages))


def _stub(number: int, placement: StagePlacement, params: Pytree) -> Stage:
    """A stage of which only the parameters are known."""
    return Stage(
        number=number,
        placement=placement,
        call=_never,
        params=_jax.tree.map(spec_of, params),
        param_shardings=tuple(leaf.sharding for leaf in _jax.tree.leaves(params)),
        args=(),
        axes=(),
        aux=None,
        needs_gradient=(),
        outputs=(),
        text="",
    )


def _never(*_: object) -> Never:
    raise AssertionError("an optimiser's state needs no stage's function")


def _on_devices(spec: PipelineSpec, params: Sequence[Pytree], aux: Sequence[Pytree]) -> RunState:
    states: list[StageState] = []
    for number, (function, own, own_aux) in enumerate(zip(spec.functions, params, aux, strict=True)):
        placement = function.placement
        if placement.is_local:
            require_held((own, own_aux), lambda _, number=number: f"stage {number}: (params, aux)")
        copies = _jax.tree.map(lambda leaf, placement=placement: _copy(leaf, placement), own)
        if placement.is_local:
            copies = placed(copies, spec.offload, kind="parameters", platform=placement.devices[0].platform)
        states.append(StageState(params=copies, optimizer_state=None, aux=_for_replicas(own_aux, placement)))
    return RunState(stages=tuple(states))


def _copy(leaf: Any, placement: StagePlacement) -> jax.Array:
    """A copy on a stage's devices. An array that is divided over the stage's mesh stays so."""
    if not placement.is_local:
        spec = spec_of(leaf)
        return remote_array(spec.shape, spec.dtype, placement.whole)
    sharding: Any = getattr(leaf, "sharding", None)
    is_there = placement.is_mesh and isinstance(sharding, NamedSharding) and sharding.mesh == getattr(placement.whole, "mesh", None)
    return put_shards(leaf, sharding if is_there else placement.whole, may_alias=False)


def _for_replicas(tree: Pytree, placement: StagePlacement) -> Pytree:
    """Auxiliary state with a leading axis of replicas, each of which begins with a copy."""
    leaves, structure = _jax.tree.flatten(tree)
    if not placement.is_local:
        specs = [placement.spec(spec_of(leaf), 0) for leaf in leaves]
        return _jax.tree.unflatten(structure, [remote_array(spec.shape, spec.dtype, spec.sharding) for spec in specs])
    if placement.replicas is None:
        return _jax.tree.unflatten(structure, [put_shards(leaf, placement.whole, may_alias=False) for leaf in leaves])
    copies = _jax.tree.unflatten(structure, put_shards(leaves, placement.whole))
    return _for_each(placement.replicas.count, placement.along(0))(copies) if leaves else copies


@functools.lru_cache(maxsize=64)
def _for_each(count: int, along: Sharding) -> Any:
    """A program that gives arrays a leading axis of replicas."""

    def for_each_replica(tree: Pytree) -> Pytree:
        return _jax.tree.map(lambda leaf: _jax.numpy.broadcast_to(leaf, (count, *leaf.shape)), tree)

    return _jax.jit(for_each_replica, out_shardings=along)
