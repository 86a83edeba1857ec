"""The search for the fastest candidate: what it plays, and how far from the fastest its result can be."""

import math
import random
from collections.abc import Sequence

import pytest

from tilestep.planner.search import Expected, Found, Replayed, search


def found(expected: Sequence[Expected], outcomes: Sequence[Replayed], most: int | None) -> Found[Replayed]:
    return search(expected, outcomes.__getitem__, lambda outcome: outcome, most=most)


def space(rng: random.Random) -> tuple[list[Expected], list[Replayed]]:
    """Candidates with true times, bounds below these, and guesses that may be anything."""
    outcomes = [Replayed(cycles=rng.randint(50, 100), fullness=rng.uniform(0.5, 1.2), fits=True) for _ in range(rng.randint(1, 12))]
    outcomes = [Replayed(cycles=each.cycles, fullness=each.fullness, fits=each.fullness <= 1) for each in outcomes]
    expected = [
        Expected(
            cycles=rng.uniform(1, 500),
            fullness=rng.uniform(0.1, 3),
            least_cycles=outcome.cycles * rng.uniform(0.3, 1),
            family=rng.randint(0, 3),
        )
        for outcome in outcomes
    ]
    return expected, outcomes


@pytest.mark.parametrize("most", [1, 2, 4, None])
def test_the_best_of_all_lies_within_the_gap_whatever_is_guessed(most: int | None) -> None:
    rng, wrong = random.Random(most or 0), 0
    for _ in range(500):
        expected, outcomes = space(rng)
        result = found(expected, outcomes, most)
        assert len({number for number, _ in result.replays}) == len(result.replays) <= (most or len(outcomes))
        true = min((each.cycles for each in outcomes if each.fits), default=math.inf)
        if result.best is None:
            assert true >= result.least_cycles
            continue
        best = outcomes[result.best].cycles
        assert min(best, result.least_cycles) <= true <= best
        wrong += best > true
    assert wrong == 0 if most is None else wrong > 5  # guesses that rank wrongly do find another one than the best


def test_all_are_played_only_where_bounds_exclude_none() -> None:
    outcomes = [Replayed(cycles=cycles, fullness=0.5, fits=True) for cycles in (10, 20, 30)]
    expected = [
        Expected(cycles=each.cycles, fullness=0.5, least_cycles=least, family=0) for each, least in zip(outcomes, (5, 9, 11), strict=True)
    ]
    result = found(expected, outcomes, None)
    assert [number for number, _ in result.replays] == [0, 1]
    assert (result.best, result.least_cycles) == (0, math.inf)


def test_candidates_that_seem_to_fit_are_played_first() -> None:
    outcomes = [Replayed(cycles=cycles, fullness=1.0, fits=True) for cycles in (10, 20)]
    expected = [Expected(cycles=10, fullness=1.1, least_cycles=1, family=0), Expected(cycles=20, fullness=0.9, least_cycles=1, family=1)]
    assert found(expected, outcomes, 1).replays[0][0] == 1
    assert found([expected[0]] * 2, outcomes, 1).replays[0][0] == 0


def test_where_none_seems_to_fit_the_one_that_needs_least_is_played_first() -> None:
    outcomes = [Replayed(cycles=10, fullness=2.0, fits=False)] * 2
    expected = [Expected(cycles=10, fullness=2.0, least_cycles=1, family=0), Expected(cycles=20, fullness=1.5, least_cycles=1, family=1)]
    result = found(expected, outcomes, 1)
    assert result.replays[0][0] == 1
    assert (result.best, result.least_cycles) == (None, 1)


def test_a_replay_corrects_the_guesses_of_its_family() -> None:
    """Candidate 0 takes ten times its guess, and so would 1, which is of its family: 2 is played next."""
    outcomes = [Replayed(cycles=cycles, fullness=0.5, fits=True) for cycles in (100, 110, 90)]
    expected = [
        Expected(cycles=cycles, fullness=0.5, least_cycles=1, family=family) for cycles, family in ((10, "a"), (11, "a"), (90, "b"))
    ]
    assert [number for number, _ in found(expected, outcomes, 2).replays] == [0, 1]  # nothing is known of family b but that guesses are low
    expected[2] = Expected(cycles=9, fullness=0.5, least_cycles=1, family="b")
    outcomes[2] = Replayed(cycles=9, fullness=0.5, fits=True)
    assert [number for number, _ in found(expected, outcomes, 3).replays] == [2, 0, 1]
