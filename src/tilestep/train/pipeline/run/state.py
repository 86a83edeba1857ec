"""The arrays that a pipeline's stages hold between runs."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax

from tilestep.train.pipeline.compile.pipeline_spec import Leaf
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("params", "optimizer_state", "aux"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class StageState:
    """The state of one stage: its parameters, the optimiser's state of them, and auxiliary state."""

    params: Pytree
    optimizer_state: Pytree
    aux: Pytree


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("stages", "joint"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of all stages."""

    stages: tuple[StageState, ...]
    joint: Pytree = None  # the optimiser's state if it looks across stages. The stages have none then.


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What an update has prepared for a stage's next run. It is of use if that run begins with the parameters of this one's end."""

    leaves: list[jax.Array]  # the parameters that are packed
    packs: list[jax.Array]  # these parameters in packs
    accumulators: list[jax.Array]  # zeros


def with_one_array(state: RunState, ties: Sequence[Sequence[Leaf]]) -> RunState:
    """The state with tied parameters as one array where they are on the same devices."""
    leaves = [_jax.tree.leaves(own.params) for own in state.stages]
    for tie in ties:
        first = leaves[tie[0][0]][tie[0][1]]
        for stage, index in tie[1:]:
            if leaves[stage][index].sharding == first.sharding:
                leaves[stage][index] = first
    stages = [
        replace(own, params=_jax.tree.unflatten(_jax.tree.structure(own.params), mine))
        for own, mine in zip(state.stages, leaves, strict=True)
    ]
    return replace(state, stages=tuple(stages))
