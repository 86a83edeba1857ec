"""The state of a pipeline as its author sees it: a pytree with an entry for each stage, for any partition of the same layers."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tilestep.train.other_arguments import require_kind
from tilestep.train.pipeline.arguments import flat, nested
from tilestep.train.pipeline.run.state import RunState, StageState
from tilestep.train.schedules.partition import Partition
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

Origins = dict[str, tuple[str, ...]]
_Path = tuple[Any, ...]

_tree: Final[Any] = _jax.tree_util


def origins_of(params: Pytree, optimizer_state: Pytree, joint: Pytree, old: Partition, new: Partition) -> Origins:
    """For each leaf of a state with the stages of `new`, by its path, the paths that it has with the stages of `old`.

    What a stage has once for all of its layers, such as an optimiser's count of updates, has a path for each old stage of its layers: the
    values there must be equal. A list in the optimiser's state has an entry for each layer, as the parameters' list has.

    Args: params: a list for each stage. optimizer_state: the same, or None. joint: the state of an optimiser that looks across stages.
    Raises: ValueError if the partitions are of other layers, or the state is not of `new`'s stages.
    """
    if len(old.costs) != len(new.costs):
        raise ValueError(f"partitions are of {len(old.costs)} and {len(new.costs)} layers: both must be of the same ones")
    stage_of = [stage for stage, (first, after) in enumerate(pairwise(old.cuts)) for _ in range(first, after)]
    found = Origins()

    def note(leaf: _Path, *origins: _Path) -> None:
        found[_tree.keystr(leaf)] = tuple(map(_tree.keystr, origins))

    def add(trees: Pytree, root: _Path, *, divides: bool) -> None:
        """What all stages have. Args: divides: whether it is of layers alone."""
        if len(trees) != len(new.cuts) - 1:
            raise ValueError(f"state{_tree.keystr(root)} has {len(trees)} stages, and the new partition {len(new.cuts) - 1}")
        for stage, (first, after) in enumerate(pairwise(new.cuts)):
            here = (*root, _tree.SequenceKey(stage))
            for prefix, layers in _lists(trees[stage], after - first, here):
                if layers is None and divides:
                    raise ValueError(f"state{_tree.keystr((*here, *prefix))} is of no layer: make the stages by Partition.stages and split")
                if layers is None:
                    befores = sorted(set(stage_of[first:after]))
                    note((*here, *prefix), *((*root, _tree.SequenceKey(before), *prefix) for before in befores))
                for number, layer in enumerate(layers or ()):
                    before = stage_of[first + number]
                    there = (*root, _tree.SequenceKey(before), *prefix, _tree.SequenceKey(first + number - old.cuts[before]))
                    for rest, _ in _tree.tree_flatten_with_path(layer)[0]:
                        note((*here, *prefix, _tree.SequenceKey(number), *rest), (*there, *rest))

    root = (_tree.GetAttrKey("optimizer_state"),)
    add(params, (_tree.GetAttrKey("params"),), divides=True)
    if optimizer_state is not None:
        add(optimizer_state, root, divides=False)
    root = (*root, _tree.GetAttrKey("state"))
    for prefix, trees in _lists(joint, len(new.cuts) - 1, root):
        if trees is None:
            note((*root, *prefix), (*root, *prefix))
        else:
            add(trees, (*root, *prefix), divides=True)
    return found


def _lists(tree: Pytree, length: int, where: _Path) -> Iterator[tuple[_Path, list[Any] | None]]:
    """Each outermost list of a tree with its path, and None for each leaf outside of them. Raises: ValueError for another length."""
    node: Any
    for path, node in _tree.tree_flatten_with_path(tree, is_leaf=lambda node: type(node) is list)[0]:
        if type(node) is list and len(node) != length:
            raise ValueError(f"state{_tree.keystr((*where, *path))} is a list of {len(node)}, and the new partition has {length} there")
        yield path, node if type(node) is list else None


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
