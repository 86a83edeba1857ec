"""Ways to cut several dimensions over the tiles, as arrays that a search evaluates at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tilestep.units import ceil_div

Ints = NDArray[np.int64]  # Python's integers (dtype object) where 64 bits might not do
_SMALL = 1 << 52  # operations: cycles and bytes that grow with so many have 63 bits, with the largest factors that a cost has


def integers(operations: int, left: int = 0, right: int = 0) -> type[np.int64]:
    """The dtype of numbers about work of that size: 64 bits, or Python's integers where those might not do.

    Args: left, right: elements of two operands, each of which is gone over in serial passes of its own.
    """
    is_large = max(operations, isqrt(left * right) << 14) >= _SMALL
    return cast("type[np.int64]", object) if is_large else np.int64  # arrays of objects are typed as if they were of 64 bits


@lru_cache(maxsize=4096)
def useful_splits(size: int, limit: int) -> tuple[int, ...]:
    """The splits of `size` elements into at most `limit` parts that matter: the smallest for each largest part.

    Another split has the same largest part and uses more tiles, so nothing that grows with either is missed.
    """
    return _splits(size, limit, 1)


@lru_cache(maxsize=4096)
def useful_even_splits(size: int, limit: int) -> tuple[int, ...]:
    """As `useful_splits`, and for an odd split also the smallest even one with the same largest part."""
    return tuple(sorted({*_splits(size, limit, 1), *_splits(size, limit, 2)}))


def _splits(size: int, limit: int, step: int) -> tuple[int, ...]:
    """For each largest part the smallest split, among the multiples of `step`."""
    limit = min(ceil_div(size, step) * step, limit)  # an even number of parts may leave the last one empty
    root = isqrt(size) + 1
    splits = set(range(step, min(limit, root) + 1, step))
    smallest = (ceil_div(ceil_div(size, part), step) * step for part in range(max(1, size // max(limit, 1)), root + 1))
    splits.update(split for split in smallest if split <= limit)
    seen: dict[int, int] = {}
    for split in sorted(splits):
        seen.setdefault(-(-size // split), split)
    return tuple(seen.values())


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """[candidates] ways to cut several dimensions into parts; the number of tiles is the product of the splits."""

    splits: tuple[Ints, ...]  # per dimension, into how many parts
    parts: tuple[Ints, ...]  # per dimension, size of the largest part
    tiles: Ints


def cuts(
    sizes: Sequence[int],
    limit: int,
    *,
    tried: Mapping[int, Sequence[int]] | None = None,
    even: int | None = None,
    greedy: int | None = None,
    dtype: type[np.int64] = np.int64,
) -> Cuts:
    """All useful ways to cut dimensions of these sizes over at most `limit` tiles.

    Args:
        tried: for some dimensions the splits that may be tried, ascending; by default the useful ones.
        even: a dimension for which an even number of parts may be cheaper than an odd one.
        greedy: a dimension of which more parts never cost more: only the most parts that the others leave room for.
        dtype: of the parts' sizes (`integers`).
    """
    values = [
        tuple((tried or {}).get(number) or (useful_even_splits if number == even else useful_splits)(size, limit))
        for number, size in enumerate(sizes)
    ]
    tiles = np.ones(1, dtype=np.int64)
    steps: list[tuple[int, Ints, Ints]] = []  # (dimension, index of each candidate's predecessor, index of its split)
    for number, each in enumerate(values):
        if number == greedy or each == (1,):
            continue
        allowed = _fitting(each, limit)[tiles]
        before = np.repeat(np.arange(len(tiles)), allowed)
        picked = np.arange(len(before)) - (np.cumsum(allowed) - allowed)[before]
        steps.append((number, before, picked))
        tiles = tiles[before] * np.array(each)[picked]
    rows = np.arange(len(tiles))
    if greedy is not None:
        most = _fitting(values[greedy], limit)[tiles] - 1
        evens = np.array([index for index, split in enumerate(values[greedy]) if split % 2 == 0 and greedy == even], dtype=np.int64)
        if len(evens):  # the most parts, and the most even ones
            splits = np.array(values[greedy])
            fitting = _fitting(tuple(splits[evens].tolist()), limit)[tiles] - 1
            other = np.flatnonzero((fitting >= 0) & (splits[most] % 2 == 1))
            rows = np.concatenate([rows, other])
            most = np.concatenate([most, evens[fitting[other]]])
        steps.append((greedy, rows, most))
        tiles = tiles[rows] * np.array(values[greedy])[most]
    return _table(sizes, values, steps, tiles, dtype)


@lru_cache(maxsize=512)  # an entry takes some kilobytes
def _fitting(splits: tuple[int, ...], limit: int) -> Ints:
    """[1 + limit] by how many tiles the dimensions before take: how many of the ascending splits still fit."""
    return np.searchsorted(splits, limit // np.maximum(np.arange(limit + 1), 1), side="right")


def _table(
    sizes: Sequence[int], values: Sequence[tuple[int, ...]], steps: Sequence[tuple[int, Ints, Ints]], tiles: Ints, dtype: type[np.int64]
) -> Cuts:
    """The splits and parts of each dimension, for the candidates of the last step, by following the steps backwards."""
    splits = [np.ones(len(tiles), dtype=np.int64) for _ in sizes]
    parts = [np.full(len(tiles), size, dtype=dtype) for size in sizes]
    rows: Ints | None = None
    for number, before, picked in reversed(steps):
        chosen = picked if rows is None else picked[rows]
        of_values = np.array(values[number], dtype=np.int64)
        splits[number], parts[number] = of_values[chosen], ceil_divide(sizes[number], of_values.astype(dtype))[chosen]
        rows = before if rows is None else before[rows]
    return Cuts(splits=tuple(splits), parts=tuple(parts), tiles=tiles)


def ceil_divide(numerator: int | Ints, denominator: int | Ints) -> Ints:
    """Quotients rounded up."""
    return np.asarray(-(-numerator // denominator))
