"""Cuts a row of costs into stages whose largest is the smallest. Imports nothing of tilestep, because runtime and reports both cut."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

MAX_STAGES: Final = 4096


def best_cuts(work: Sequence[float], passing: Sequence[float], stages: int) -> tuple[int, ...]:
    """The cuts into at most so many stages whose largest stage is the smallest; exact, by dynamic programming.

    Of several such cuts it takes those with the fewest stages, and of these the ones with the least sum of squares over stages. The cost of
    a stage is the work of its layers, and the passing at both ends.

    Args:
        work: of each layer; there is at least one.
        passing: of each layer's outputs to the next stage, in the same unit; that of the last layer does not matter.
        stages: the largest number of stages, at least 1.

    Returns:
        For each stage the number of its first layer, and at the end the number of layers.
    """
    count = len(work)
    sums = [0.0, *accumulate(work)]

    def between(first: int, after: int) -> float:
        return sums[after] - sums[first] + passing_at(passing, first, after)

    largest = [between(0, after) for after in range(1, count + 1)]  # the smallest that it can be, of the first layers in so many stages
    bound = largest[-1]
    for _ in range(1, min(stages, count)):
        largest = [
            min([between(0, after), *(max(largest[first - 1], between(first, after)) for first in range(1, after))])
            for after in range(1, count + 1)
        ]
        bound = min(bound, largest[-1])
    # row[j]: (sum of squares, where the last stage begins) of the first j layers, no stage of which is above the bound
    rows: list[list[tuple[float, int] | None]] = [[(0.0, 0), *[None] * count]]
    while rows[-1][count] is None or len(rows) == 1:
        row: list[tuple[float, int] | None] = [None]
        for after in range(1, count + 1):
            options = (
                (found[0] + cost * cost, first)
                for first in range(after)
                if (found := rows[-1][first]) is not None and (cost := between(first, after)) <= bound
            )
            row.append(min(options, default=None))
        rows.append(row)
    cuts = [count]
    for row in reversed(rows[1:]):
        entry = row[cuts[-1]]
        assert entry is not None  # it was reached
        cuts.append(entry[1])
    return tuple(reversed(cuts))


def stage_costs(work: Sequence[float], passing: Sequence[float], cuts: Sequence[int]) -> tuple[float, ...]:
    """The cost of each stage between two cuts: the work of its layers, and the passing at both ends."""
    return tuple(sum(work[first:after]) + passing_at(passing, first, after) for first, after in pairwise(cuts))


def passing_at(passing: Sequence[float], first: int, after: int) -> float:
    """The passing at both ends of a stage of the layers from `first` up to `after`."""
    return (passing[first - 1] if first else 0.0) + (passing[after - 1] if after < len(passing) else 0.0)
