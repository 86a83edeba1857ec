"""Which arguments of a session's program stay on the device, and which results replace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from tilestep.messages import shown
from tilestep.train.untyped import jax as _jax

Path = str  # of an array that stays on the device


@dataclass(frozen=True, kw_only=True)
class Kept:
    """An argument that stays on the device between calls: an array, or a tree of them.

    Attributes:
        argument: its position, from 0.
        result: the position of the result that replaces it; None: it stays as it is.
        name: under which the session's other programs have it. Arrays of equal names and paths in the tree are the same.
    """

    argument: int
    result: int | None = None
    name: str = "state"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The arrays that stay on the device, as one program has them.

    Attributes:
        paths: flat argument -> the array.
        results: flat result -> the array that it replaces.
        kept: flat argument -> the flat result that replaces it; None: it stays as it is.
        arrays: shape, dtype and sharding of each array.
    """

    paths: Mapping[int, Path]
    results: Mapping[int, Path]
    kept: Mapping[int, int | None]
    arrays: Mapping[Path, jax.ShapeDtypeStruct]


def layout_of(lowered: Any, arguments: Sequence[Any], kept: Sequence[Kept]) -> Layout:
    """The layout of a program.

    Args: lowered: a jax.stages.Lowered without static arguments. arguments: that it was lowered for.
    Raises: ValueError if an argument or result does not exist, or differs from its other in shape or dtype.
    """
    given = _leaves(tuple(arguments))
    out: Any = lowered.out_info
    results = _leaves(out if isinstance(out, tuple | list) else (out,))
    paths: dict[int, Path] = {}
    replaced: dict[int, Path] = {}
    partners: dict[int, int | None] = {}
    arrays: dict[Path, jax.ShapeDtypeStruct] = {}
    for each in kept:
        mine = _part(given, each.argument, "argument")
        others: _Part = {} if each.result is None else _part(results, each.result, "result")
        for path, (number, leaf) in mine.items():
            name = each.name + path
            paths[number], arrays[name] = name, _shape(leaf)
            partners[number] = None
            if each.result is not None:
                partners[number] = partner = _partner(name, leaf, others.get(path))
                replaced[partner] = name
    return Layout(paths=paths, results=replaced, kept=partners, arrays=arrays)


_Part = Mapping[str, tuple[int, Any]]  # path -> (flat number, leaf)


def _leaves(tree: Any) -> Mapping[int, _Part]:
    """The leaves below each position of a tuple."""
    found: dict[int, dict[str, tuple[int, Any]]] = {position: {} for position in range(len(tree))}
    paths: list[tuple[Any, Any]] = _jax.tree_util.tree_leaves_with_path(tuple(tree))
    for number, (path, leaf) in enumerate(paths):
        found[path[0].idx][_jax.tree_util.keystr(path[1:])] = (number, leaf)
    return found


def _part(parts: Mapping[int, _Part], position: int, what: str) -> _Part:
    if position not in parts:
        raise ValueError(f"{what} {position} does not exist: the program has {len(parts)}")
    return parts[position]


def _partner(name: Path, leaf: Any, other: tuple[int, Any] | None) -> int:
    """The flat number of the result that replaces an array."""
    if other is None:
        raise ValueError(f"no result replaces {shown(name)}: the result must have the tree of the argument")
    number, result = other
    mine, its = _shape(leaf), _shape(result)
    if (mine.shape, mine.dtype) != (its.shape, its.dtype):
        raise ValueError(
            f"{shown(name)} is {mine.dtype}{list(mine.shape)}, and its result is {its.dtype}{list(its.shape)}: they must be equal"
        )
    return number


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None))
