"""The state of a pipeline as its author sees it: a pytree with an entry for each stage, and lists for concurrent stages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tilestep.train.other_arguments import require_kind
from tilestep.train.pipeline.arguments import flat, nested
from tilestep.train.pipeline.repartition import Origins, origins_of
from tilestep.train.pipeline.run.state import RunState, StageState
from tilestep.train.schedules.partition import Partition
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("state",), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class JointState:
    """The state of an optimiser that looks across stages, a pytree.

    Attributes:
        state: the optimiser's state for all stages' parameters. Each array is on the device that uses it.
    """

    state: Pytree


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("params", "optimizer_state", "aux"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class PipelineState:
    """The state that a pipeline trains, a pytree.

    Attributes:
        params: a list with one pytree of arrays for each stage, and a list of them for concurrent stages. Each is on its stage's device.
        optimizer_state: the optimiser's state in the same form; a `JointState` if the optimiser looks across stages. None in inference,
            and before the first update if the optimiser is a function of the last stage's outputs.
        aux: the stages' auxiliary state in the same form; None if no stage has one. With several replicas each array has a leading axis
            of replicas.
    """

    params: list[Pytree]
    optimizer_state: list[Pytree] | JointState | None
    aux: list[Pytree] | None = None

    def origins(self, old: Partition, new: Partition) -> Origins:
        """For each leaf of this state, whose stages are those of `new`, its paths in a state with the stages of `old`.

        Raises:
            ValueError: if the partitions are of other layers, or the state is not of `new`'s stages.
        """
        if self.aux is not None:
            raise ValueError("the state has aux, which is of stages and not of layers: no other partition can have it")
        own: Pytree = self.optimizer_state
        of_stages, joint = (None, own.state) if isinstance(own, JointState) else (own, None)
        return origins_of(self.params, of_stages, joint, old, new)


def require_state(state: Pytree) -> None:
    """Raises: TypeError for what is no state of a pipeline."""
    require_kind("state", state, PipelineState, "a PipelineState, as init, step and run return it")


def run_state(state: PipelineState, levels: Sequence[Sequence[object]]) -> RunState:
    """The state with one entry for each stage. Raises: TypeError, ValueError if it is not that of a pipeline with these levels."""
    require_state(state)
    params = flat(state.params, levels, "state.params")
    nothing: list[Pytree] = [None] * len(params)
    aux = nothing if state.aux is None else flat(state.aux, levels, "state.aux")
    optimizer_states, joint = nothing, None
    if isinstance(state.optimizer_state, JointState):
        joint = state.optimizer_state.state
    elif state.optimizer_state is not None:
        optimizer_states = flat(state.optimizer_state, levels, "state.optimizer_state")
    stages = [StageState(params=own, optimizer_state=o, aux=a) for own, o, a in zip(params, optimizer_states, aux, strict=True)]
    return RunState(stages=tuple(stages), joint=joint)


def pipeline_state(state: RunState, levels: Sequence[Sequence[object]], *, training: bool) -> PipelineState:
    """The state with lists for concurrent stages. Args: training: whether there is an optimiser."""
    optimizer_state: list[Pytree] | JointState | None = None
    if state.joint is not None:
        optimizer_state = JointState(state=state.joint)
    elif training and any(stage.optimizer_state is not None for stage in state.stages):
        optimizer_state = nested([stage.optimizer_state for stage in state.stages], levels)
    has_aux = any(_jax.tree.leaves(stage.aux) for stage in state.stages)
    return PipelineState(
        params=nested([stage.params for stage in state.stages], levels),
        optimizer_state=optimizer_state,
        aux=nested([stage.aux for stage in state.stages], levels) if has_aux else None,
    )
