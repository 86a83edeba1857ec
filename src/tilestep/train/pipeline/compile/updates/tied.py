"""Finds the parameters' leaves that an author has tied by their paths, and requires that they begin equal."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tilestep.hints import dry_platforms
from tilestep.messages import shortened
from tilestep.train.pipeline.compile.pipeline_spec import Leaf
from tilestep.train.pipeline.compile.tracing import spec_of
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def leaves_tied(ties: Sequence[Sequence[tuple[int, tuple[Any, ...]]]], params: Sequence[jax.Array]) -> list[list[Leaf]]:
    """The leaves that are tied, for paths of leaves or of trees of them: (stage, index among the leaves).

    Raises: ValueError if a path names nothing, or trees are unlike.
    """
    leaves_of_ties: list[list[Leaf]] = []
    for tie in ties:
        columns = [_below(stage, path, params[stage]) for stage, path in tie]
        specs = [[(rest, spec_of(leaf)) for _, rest, leaf in column] for column in columns]
        for (stage, path), own in zip(tie[1:], specs[1:], strict=True):
            if [(rest, spec.shape, spec.dtype) for rest, spec in own] != [(rest, spec.shape, spec.dtype) for rest, spec in specs[0]]:
                first = f"stage {tie[0][0]} {'/'.join(map(str, tie[0][1]))}"
                raise ValueError(
                    f"tied parameters must be alike: {first} is {_said(specs[0])}, stage {stage} {'/'.join(map(str, path))} is {_said(own)}"
                )
        leaves_of_ties += [
            [(stage, column[row][0]) for (stage, _), column in zip(tie, columns, strict=True)] for row in range(len(columns[0]))
        ]
    taken = [leaf for tie in leaves_of_ties for leaf in tie]
    twice = [leaf for leaf in taken if taken.count(leaf) > 1]
    if twice:
        raise ValueError(f"a parameter of stage {twice[0][0]} is tied twice: name all that are equal in one list")
    return leaves_of_ties


def require_equal(ties: Sequence[Sequence[Leaf]], params: Sequence[jax.Array]) -> None:
    """Raises: ValueError for tied parameters that have other values than the first of them, where they are known."""
    for tie in ties:
        given = [_jax.tree.leaves(params[stage])[index] for stage, index in tie]
        if not all(_is_known(leaf) for leaf in given):
            continue
        leaves = [np.asarray(leaf) for leaf in given]
        for (stage, index), leaf in zip(tie[1:], leaves[1:], strict=True):
            if not np.array_equal(leaves[0], leaf, equal_nan=leaf.dtype.kind in "fc"):
                path = _jax.tree_util.keystr(_jax.tree_util.tree_flatten_with_path(params[stage])[0][index][0], simple=True, separator="/")
                raise ValueError(
                    f"tied parameters must begin equal, but {path} of stage {stage} has other values than that of stage {tie[0][0]}: give "
                    "the same array twice"
                )


def _is_known(leaf: Any) -> bool:
    """Whether this process has the values of what `init` gets for a parameter: not of other processes, and not in a dry run."""
    if isinstance(leaf, jax.Array):
        return leaf.is_fully_addressable and not any(device.platform in dry_platforms for device in leaf.devices())
    return not isinstance(leaf, jax.ShapeDtypeStruct)


def _below(stage: int, path: tuple[Any, ...], params: Pytree) -> list[tuple[int, tuple[Any, ...], Any]]:
    """(index, the rest of its path, leaf) of what is at a path."""
    below: list[tuple[int, tuple[Any, ...], Any]] = []
    for index, (keys, leaf) in enumerate(_jax.tree_util.tree_flatten_with_path(params)[0]):
        names = tuple(getattr(key, "key", getattr(key, "idx", getattr(key, "name", None))) for key in keys)
        if names[: len(path)] == path:
            below.append((index, names[len(path) :], leaf))
    if not below:
        there = [_jax.tree_util.keystr(keys, simple=True, separator="/") for keys, _ in _jax.tree_util.tree_flatten_with_path(params)[0]]
        raise ValueError(f"tied names {'/'.join(map(str, path))} of stage {stage}, which has {', '.join(there) or 'no parameters'}")
    return below


def _said(specs: Sequence[tuple[Any, Any]]) -> str:
    return shortened(", ".join(f"{'/'.join(map(str, rest))} {spec.dtype}{list(spec.shape)}".strip() for rest, spec in specs), 200)
