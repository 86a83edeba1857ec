"""Where the leaves of a pipeline's state are with another partition of the same layers into stages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

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
