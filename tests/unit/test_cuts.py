"""Cuts of a row of costs into stages."""

from __future__ import annotations

from itertools import combinations

import pytest

from tilestep.cuts import best_cuts, stage_costs


def test_the_largest_stage_is_as_small_as_any_cut_makes_it() -> None:
    work, passing = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0], [0.5, 2.0, 0.1, 0.0, 1.0, 0.3, 0.2, 0.0]
    for stages in range(1, 6):
        every = [
            max(stage_costs(work, passing, (0, *inner, len(work))))
            for count in range(stages)
            for inner in combinations(range(1, len(work)), count)
        ]
        assert max(stage_costs(work, passing, best_cuts(work, passing, stages))) == min(every)


@pytest.mark.parametrize(
    ("work", "stages", "cuts"),
    [([1.0], 3, (0, 1)), ([1.0, 1.0, 1.0, 1.0], 2, (0, 2, 4)), ([1.0, 9.0, 1.0], 3, (0, 1, 2, 3)), ([0.0, 0.0], 2, (0, 2))],
)
def test_of_equal_cuts_the_one_with_fewest_stages_counts(work: list[float], stages: int, cuts: tuple[int, ...]) -> None:
    found = best_cuts(work, [0.0] * len(work), stages)
    assert max(stage_costs(work, [0.0] * len(work), found)) == max(stage_costs(work, [0.0] * len(work), cuts))
    assert len(found) <= len(cuts)


def test_the_passing_counts_at_both_ends_of_a_stage() -> None:
    assert stage_costs([1.0, 2.0, 3.0], [10.0, 20.0, 0.0], (0, 1, 3)) == (11.0, 15.0)
