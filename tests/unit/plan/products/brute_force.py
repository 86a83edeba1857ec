"""The planners' searches without pruning: every split, useful or not, of every method is evaluated."""

import math
from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tilestep.cost.splits import Cuts
from tilestep.plan.products import conv_methods, matmul, partition


def every_cut(
    sizes: Sequence[int],
    limit: int,
    *,
    tried: Mapping[int, Sequence[int]] | None = None,
    even: int | None = None,
    greedy: int | None = None,
    dtype: DTypeLike = np.int64,
) -> Cuts:
    """All tuples of splits whose product is at most `limit`; an even number may leave one part empty.

    What may be `tried` of a dimension is kept to: it says what a method can do, not what is worth trying.
    """
    del even, greedy
    choices = [(tried or {}).get(number) or range(1, min(size + size % 2, limit) + 1) for number, size in enumerate(sizes)]
    rows: list[tuple[int, ...]] = [()]
    for choice in choices:  # in the order of itertools.product, without those that are above the limit already
        rows = [(*row, split) for row in rows for split in choice if math.prod(row) * split <= limit]
    splits = tuple(np.array(column, dtype=dtype) for column in zip(*rows, strict=True))
    parts = tuple(-(-size // split) for size, split in zip(sizes, splits, strict=True))
    return Cuts(splits=splits, parts=parts, tiles=np.prod(splits, axis=0))


def without_pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the searches skip nothing."""

    def no_bound(*_: object) -> int:
        return -(1 << 50)

    for planner, method in ((matmul, matmul.MatmulMethod), (conv_methods, conv_methods.ConvMethod)):
        monkeypatch.setattr(planner, "cuts", every_cut)
        monkeypatch.setattr(method, "at_least_on", no_bound)
    monkeypatch.setattr(partition, "others_at_least", no_bound)
    monkeypatch.setattr(partition, "PROBES", 1 << 30)


def only_cut(patch: pytest.MonkeyPatch, planning: ModuleType, splits: Sequence[int]) -> None:
    """Of all cuts a module of plans finds this one, whatever the sizes; parts may be empty."""

    def cuts(sizes: Sequence[int], limit: int, **_: object) -> Cuts:
        assert np.prod(splits) <= limit
        return Cuts(
            splits=tuple(np.array([split], dtype=np.int64) for split in splits),
            parts=tuple(np.array([-(-size // split)], dtype=np.int64) for size, split in zip(sizes, splits, strict=True)),
            tiles=np.array([np.prod(splits)], dtype=np.int64),
        )

    patch.setattr(planning, "cuts", cuts)
