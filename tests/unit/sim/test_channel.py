"""One direction of a link."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilestep.sim.channel import MAX_BUSY_SPANS, Channel


def test_a_transfer_starts_when_it_is_ready_and_the_link_is_free() -> None:
    channel = Channel()
    assert channel.book(10, 5) == 15
    assert channel.book(12, 5) == 20  # waits for the first
    assert channel.book(20, 1) == 21


def test_a_transfer_booked_early_but_ready_late_lets_others_pass() -> None:
    channel = Channel()
    assert channel.book(1000, 50) == 1050
    assert channel.book(0, 30) == 30


def test_a_transfer_that_does_not_fit_in_front_goes_on_behind() -> None:
    channel = Channel()
    channel.book(10, 10)
    assert channel.book(0, 15) == 25  # 0..10, then 20..25
    assert channel.busy_spans() == ((0, 25),)


def test_a_transfer_that_fills_the_gap_exactly_ends_where_the_gap_does() -> None:
    channel = Channel()
    channel.book(10, 10)
    assert channel.book(0, 10) == 10
    assert channel.busy_spans() == ((0, 20),)


def test_a_transfer_uses_several_gaps() -> None:
    channel = Channel()
    channel.book(10, 10)
    channel.book(30, 10)
    channel.book(60, 10)
    assert channel.book(5, 20) == 45  # 5..10, 20..30, 40..45
    assert channel.busy_spans() == ((5, 45), (60, 70))


def test_nothing_to_send_takes_no_time_even_when_the_link_is_busy() -> None:
    channel = Channel()
    channel.book(0, 10)
    assert channel.book(3, 0) == 3


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
