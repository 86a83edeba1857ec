"""Ways to cut several dimensions over the tiles, as arrays that a search evaluates at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tilestep.units import ceil_div

Ints = NDArray[np.int64]


@lru_cache(maxsize=4096)
def useful_splits(size: int, limit: int) -> tuple[int, ...]:
    """The splits of `size` elements into at most `limit` parts that matter: the smallest for each largest part.

    Another split has the same largest part and uses more tiles, so nothing that grows with either is missed.
    """
    return _splits(size, limit, 1)


@lru_cache(maxsize=4096)
def useful_even_splits(size: int, limit: int) -> tuple[int, ...]:
    """As `useful_splits`, and where that is odd also the smallest even split for the same largest part."""
    return tuple(sorted({*_splits(size, limit, 1), *_splits(size, limit, 2)}))


def _splits(size: int, limit: int, step: int) -> tuple[int, ...]:
    """For each largest part the smallest split, among the multiples of `step`."""
    limit = min(ceil_div(size, step) * step, limit)  # an even number of parts may leave the last one empty
    root = isqrt(size) + 1
    splits = set(range(step, min(limit, root) + 1, step))
    smallest = (ceil_div(ceil_div(size, part), step) * step for part in range(1, root + 1))
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
) -> Cuts:
    """All useful ways to cut dimensions of these sizes over at most `limit` tiles.

    Args:
        tried: for some dimensions the splits that may be tried, ascending; by default the useful ones.
        even: a dimension for which an even number of parts may be cheaper than an odd one.
        greedy: a dimension of which more parts never cost more: only the most parts that the others leave room for.
    """
    splits: list[Ints] = [np.ones(1, dtype=np.int64)] * len(sizes)
    tiles = np.ones(1, dtype=np.int64)
    values = [
        np.asarray((tried or {}).get(number) or (useful_even_splits if number == even else useful_splits)(size, limit), dtype=np.int64)
        for number, size in enumerate(sizes)
    ]
    for number in range(len(sizes)):
        if number == greedy:
            continue
        allowed = np.searchsorted(values[number], limit // tiles, side="right")
        rows = np.repeat(np.arange(len(tiles)), allowed)
        picked = np.arange(len(rows)) - (np.cumsum(allowed) - allowed)[rows]
        splits = [column[rows] if len(column) == len(tiles) else column for column in splits]
        splits[number] = values[number][picked]
        tiles = tiles[rows] * splits[number]
    if greedy is not None:
        most = values[greedy][np.searchsorted(values[greedy], limit // tiles, side="right") - 1]
        evens = values[greedy][values[greedy] % 2 == 0] if greedy == even else values[greedy][:0]
        rows = np.arange(len(tiles))
        if len(evens):  # the most parts, and the most even ones
            place = np.searchsorted(evens, limit // tiles, side="right") - 1
            other = np.flatnonzero((place >= 0) & (most % 2 == 1))
            rows = np.concatenate([rows, other])
            most = np.concatenate([most, evens[place[other]]])
        splits = [column[rows] if len(column) == len(tiles) else column for column in splits]
        splits[greedy] = most
        tiles = tiles[rows] * most
    parts = tuple(ceil_divide(size, split) for size, split in zip(sizes, splits, strict=True))
    return Cuts(splits=tuple(splits), parts=parts, tiles=tiles)


def ceil_divide(numerator: int | Ints, denominator: int | Ints) -> Ints:
    """Quotients rounded up."""
    return np.asarray(-(-np.asarray(numerator, dtype=np.int64) // denominator))
