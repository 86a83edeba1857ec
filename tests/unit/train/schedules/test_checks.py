"""What a schedule refuses, in a time that depends on how many tasks there are and not on the numbers that they have."""

import dataclasses
from typing import Any

import pytest

from tilestep.train import schedules
from tilestep.train.schedules.schedule import Kind, Task, from_table

HUGE = 99999999999999
pytestmark = pytest.mark.timeout(60)  # what counted up to such a number would never end


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[f"0F{HUGE}", "0B0"]], f"device 0 has task 0F{HUGE}, but there are 2 tasks in all, and microbatches are numbered from 0 on"),
        ([["0F0", "0B0"], ["1F0", f"1B{HUGE}"]], f"device 1 has task 1B{HUGE}, but there are 4 tasks in all"),
        ([["0F0", f"0U{HUGE}"]], f"device 0 has task 0U{HUGE}, but there are 2 tasks in all"),
        ([[f"{HUGE}F0", "0B0"]], rf"the table has the stages \[0, {HUGE}\]: .*stage 1 is missing"),
        ([["0F" + "9" * 19]], "it has a number of 19 digits, and 18 is the most"),
        ([["0F" + "9" * 5000]], "row 0: '0F999.*it has a number of 5000 digits, and 18 is the most"),
        ([["0F0", "0B0"], ["0F0" * 100_000]], "row 1: '0F00F0.*is no task"),
        ([], "the table has no tasks"),
        ([[], [""]], "the table has no tasks"),
    ],
)
def test_tables_with_large_numbers_are_refused(rows: list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_table(rows)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"microbatches": HUGE}, f"task 0F2 is missing, and {2 * 2 * (HUGE - 2) - 1} others"),
        ({"device_mapping": (0, HUGE)}, f"names a device that has no tasks, {HUGE}: there are 2 of them"),
        ({"levels": ((0,), (HUGE,))}, r"levels .* must number the 2 stages .*levels=\[\[0\], \[1, 2\], \[3\]\]"),
        ({"levels": ((0,), (), (1,))}, "levels .* must number the 2 stages"),
        ({"weights": "stael"}, "weights is 'stael': it must be one of 'same', 'stale', 'stashed'"),
        ({"tasks": ((Task(0, Kind.FORWARD),), ())}, "device 0 has task 0F without a microbatch"),
        ({"tasks": ((Task(0, Kind.FORWARD, -1),), ())}, "device 0 has task 0F-1, but there are 2 microbatches"),
    ],
)
def test_schedules_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(schedules.grouped(2, 2, strict=False), **change)


@pytest.mark.parametrize("make", [schedules.grouped, schedules.interleaved, schedules.zero_bubble, schedules.stale])
def test_a_mapping_to_a_large_number_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=rf"device_mapping \[0, {HUGE}\] leaves out device 1"):
        make(2, 4, device_mapping=[0, HUGE])


def test_rows_and_levels_of_other_kinds_say_how_they_are_given() -> None:
    guess: Any = ["0F0,0B0"]
    with pytest.raises(TypeError, match=r"row 0 is '0F0,0B0': it must be a list of tasks, such as "):
        from_table(guess)
    sizes: Any = [1, 2, 1]
    with pytest.raises(
        TypeError, match=r"levels is \[1, 2, 1\]: it must be a list of lists of stages; levels=\[\[0\], \[1, 2\], \[3\]\] makes"
    ):
        from_table(schedules.grouped([1, 2, 1], 6).table(), levels=sizes)


def test_of_many_devices_that_wait_for_each_other_some_are_named() -> None:
    with pytest.raises(ValueError, match=r"for ever: device 999 at 999B0 for 999F0; .*; and 995 others") as caught:
        from_table([[f"{stage}B0", f"{stage}F0"] for stage in range(1000)])
    assert len(str(caught.value)) < 600


def test_a_hand_made_table_may_be_serial() -> None:
    schedule = schedules.sequential(3, 4, training=False)
    again = from_table(schedule.table(), serial=True, name="sequential")
    assert again == schedule
    assert again.simulate().makespan > from_table(schedule.table()).simulate().makespan


def test_a_timeline_is_short_when_it_is_printed() -> None:
    timeline = schedules.grouped(4, 64).simulate()
    assert repr(timeline) == str(timeline) == f"<Timeline: 516 tasks on 4 devices, makespan 201, bubble {timeline.bubble:.1%}>"
    assert repr(schedules.sequential(1, 1).simulate()) == "<Timeline: 3 tasks on 1 device, makespan 3, bubble 0.0%>"
