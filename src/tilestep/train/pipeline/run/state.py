"""The state of a pipeline: what its stages hold between runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilestep.train.pipeline.compile.programs import Leaf
from tilestep.train.untyped import jax as _jax


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("params", "optimizer_state", "aux"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class StageState:
    """What one stage has: a tree of parameters, the optimiser's state of them, and auxiliary state."""

    params: Any
    optimizer_state: Any
    aux: Any


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("stages", "joint"), meta_fields=())
@dataclass(frozen=True, kw_only=True)
class RunState:
    """What all stages have. Attributes: joint: the optimiser's state where it looks across stages; then the stages' are None."""

    stages: tuple[StageState, ...]
    joint: Any = None


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What an update has made of a stage for the next run, if that begins with the parameters that this one has ended with.

    Attributes: leaves: those of these parameters that are together. packs: they, together. accumulators: zeros.
    """

    leaves: list[Any]
    packs: list[Any]
    accumulators: list[Any]


def with_one_array(state: RunState, ties: Sequence[Sequence[Leaf]]) -> RunState:
    """The state with tied parameters as one array where they are on the same devices."""
    leaves = [_jax.tree.leaves(own.params) for own in state.stages]
    for tie in ties:
        first = leaves[tie[0][0]][tie[0][1]]
        for stage, place in tie[1:]:
            if leaves[stage][place].sharding == first.sharding:
                leaves[stage][place] = first
    stages = [
        replace(own, params=_jax.tree.unflatten(_jax.tree.structure(own.params), mine))
        for own, mine in zip(state.stages, leaves, strict=True)
    ]
    return replace(state, stages=tuple(stages))
