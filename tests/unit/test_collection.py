"""Pauses of the garbage collector."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from tilestep.collection import collection_paused


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """What the tests' process has frozen is so again afterwards."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


class Knot:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


def a_knot_of(count: int) -> weakref.ref[Knot]:
    """One of so many knots, all of which are made in a pause and dropped behind it."""
    gc.collect()
    with collection_paused():
        knots = [Knot() for _ in range(count)]
    return weakref.ref(knots[0])


def test_many_objects_of_a_pause_wait_for_a_full_collection() -> None:
    knot = a_knot_of(60_000)
    gc.collect(0)
    assert knot() is not None
    gc.collect()
    assert knot() is None


def test_few_objects_of_a_pause_stay_young() -> None:
    knot = a_knot_of(100)
    gc.collect(0)
    assert knot() is None


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        knot = a_knot_of(60_000)
        assert 0 < gc.get_freeze_count() <= frozen
        gc.collect()
        assert knot() is None
    finally:
        gc.unfreeze()
