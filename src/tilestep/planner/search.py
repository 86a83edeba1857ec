"""Finds the fastest of many candidates by few replays, and how far from the fastest the one that it found can be.

Nothing here knows what a candidate is. Guesses order, bounds exclude, and a replay is exact.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is known of a candidate before it is replayed.

    Attributes:
        cycles: a guess of its time.
        fullness: a guess of what the fullest tile needs, as a part of what it has.
        least_cycles: no replay of it can take less.
        family: candidates of one family err alike.
    """

    cycles: float
    fullness: float
    least_cycles: float
    family: Hashable


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a replay has shown.

    Attributes:
        cycles: its time.
        fullness: what it needs of the memory that is the fullest, as a part of what there is.
        fits: whether it does.
    """

    cycles: float
    fullness: float
    fits: bool


@dataclass(frozen=True, kw_only=True)
class Found(Generic[T]):
    """The result of a search.

    Attributes:
        replays: those that were replayed, in that order.
        best: number of the best of them; None if none fits.
        least_cycles: no candidate that was not replayed takes less; infinity if each of them is known to be no faster than the best.
        ended_by: the Ctrl-C that ended the search in a replay; None if none did.
    """

    replays: tuple[tuple[int, T], ...]
    best: int | None
    least_cycles: float
    ended_by: KeyboardInterrupt | None = None


def search(
    expected: Sequence[Expected],
    replay: Callable[[int], T],
    shown: Callable[[T], Replayed],
    *,
    most: int | None,
    first: Sequence[int] = (),
) -> Found[T]:
    """Replays candidates, the most promising first, until none that is left can be faster, or so many were.

    Args:
        expected: of each candidate.
        replay: plays the candidate of that number.
        shown: what a replay has shown.
        most: replays; None: as many as it takes.
        first: numbers of candidates that are replayed before others.
    """
    done: dict[int, T] = {}
    outcomes: dict[int, Replayed] = {}
    best: int | None = None
    ended_by: KeyboardInterrupt | None = None
    while True:
        record = math.inf if best is None else outcomes[best].cycles
        left = [number for number, each in enumerate(expected) if number not in outcomes and each.least_cycles < record]
        if not left or (most is not None and len(done) >= most):
            break
        number = next((number for number in first if number in left), None)
        number = _next(expected, left, outcomes) if number is None else number
        try:
            done[number] = replay(number)
        except KeyboardInterrupt as error:
            ended_by = error
            break
        outcomes[number] = shown(done[number])
        if outcomes[number].fits and outcomes[number].cycles < record:
            best = number
    least = min((expected[number].least_cycles for number in left), default=math.inf)
    return Found(replays=tuple(done.items()), best=best, least_cycles=least, ended_by=ended_by)


def _next(expected: Sequence[Expected], left: Sequence[int], outcomes: dict[int, Replayed]) -> int:
    """The candidate that is the fastest of those that fit, or else needs the least, by guesses as replays have corrected them."""
    slower, fuller = _Corrections(), _Corrections()
    for number, outcome in outcomes.items():
        slower.note(expected[number].family, outcome.cycles, expected[number].cycles)
        fuller.note(expected[number].family, outcome.fullness, expected[number].fullness)

    def rank(number: int) -> tuple[bool, float, int]:
        each = expected[number]
        cycles = max(each.cycles * slower.of(each.family), each.least_cycles)
        fullness = each.fullness * fuller.of(each.family)
        return (fullness > 1, fullness if fullness > 1 else cycles, number)

    return min(left, key=rank)


class _Corrections:
    """How far guesses were off: of each family, and of all together for families without a replay."""

    def __init__(self) -> None:
        self._logs: dict[Hashable, list[float]] = {}

    def note(self, family: Hashable, real: float, guess: float) -> None:
        if real > 0 and guess > 0:
            self._logs.setdefault(family, []).append(math.log(real / guess))

    def of(self, family: Hashable) -> float:
        logs = self._logs.get(family) or [each for own in self._logs.values() for each in own]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0
