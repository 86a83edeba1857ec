"""One direction of a link."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilestep.sim.channel import MAX_BUSY_SPANS, Channel

BOOKINGS = {  # name -> (ready, duration) of each transfer, where each ends, and the spans that are busy then
    "a transfer starts when it is ready and the link is free": ([(10, 5), (12, 5), (20, 1)], [15, 20, 21], ((10, 21),)),
    "one booked early but ready late lets others pass": ([(1000, 50), (0, 30)], [1050, 30], ((0, 30), (1000, 1050))),
    "one that does not fit in front goes on behind": ([(10, 10), (0, 15)], [20, 25], ((0, 25),)),
    "one that fills the gap exactly ends where the gap does": ([(10, 10), (0, 10)], [20, 10], ((0, 20),)),
    "one uses several gaps": ([(10, 10), (30, 10), (60, 10), (5, 20)], [20, 40, 70, 45], ((5, 45), (60, 70))),
    "nothing to send takes no time even when the link is busy": ([(0, 10), (3, 0)], [10, 3], ((0, 10),)),
}


@pytest.mark.parametrize(("transfers", "ends", "spans"), BOOKINGS.values(), ids=BOOKINGS)
def test_transfers_are_booked(transfers: list[tuple[int, int]], ends: list[int], spans: tuple[tuple[int, int], ...]) -> None:
    channel = Channel()
    assert [channel.book(*transfer) for transfer in transfers] == ends
    assert channel.busy_spans() == spans


def test_what_has_passed_can_be_dropped() -> None:
    channel = Channel()
    channel.book(0, 10)
    channel.book(20, 10)
    channel.drop_before(15)
    assert channel.busy_spans() == ((20, 30),)


def test_spans_stay_bounded() -> None:
    channel = Channel()
    for index in range(2 * MAX_BUSY_SPANS):
        channel.book(10 * index, 1)
    spans = channel.busy_spans()
    assert len(spans) == MAX_BUSY_SPANS
    assert spans[0][0] == 0  # the oldest gaps count as taken, never as free
    assert spans[-1] == (10 * (2 * MAX_BUSY_SPANS - 1), 10 * (2 * MAX_BUSY_SPANS - 1) + 1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=30))
def test_bookings_take_each_cycle_once_and_as_early_as_they_can(transfers: list[tuple[int, int]]) -> None:
    channel = Channel()
    taken: set[int] = set()
    for ready, duration in transfers:
        free = (cycle for cycle in range(ready, 2000) if cycle not in taken)
        mine = [next(free) for _ in range(duration)]
        taken.update(mine)
        assert [cycle for start, end in channel.pieces(ready, duration) for cycle in range(start, end)] == mine
        assert channel.book(ready, duration) == (mine[-1] + 1 if mine else ready)
    spans = channel.busy_spans()
    assert {cycle for start, end in spans for cycle in range(start, end)} == taken
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
