"""Schedules as CSV: what is read is what was written, and files of strangers are refused with line and value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilestep.train import schedules
from tilestep.train.schedules.csv_file import Header
from tilestep.train.schedules.schedule import Schedule, from_csv, from_table

WHOLE = """# tilestep schedule 1
# name: "interleaved"
# levels: [[0], [1, 2], [3]]
# device_mapping: [0, 1, 2, 3]
# devices: 4
# microbatches: 1
# weights: "same"
# serial: false
0F0,0B0,0U
1F0,1B0,1U
2F0,2B0,2U
3F0,3B0,3U
"""


@st.composite
def some_schedules(draw: st.DrawFn) -> Schedule:
    """One of the usual ones, as it is made or changed by hand."""
    name = draw(st.sampled_from(sorted(schedules.SCHEDULES)))
    count = draw(st.integers(1, 9))
    if name == "looped":
        schedule = schedules.looped(draw(st.integers(1, 3)), count, rounds=draw(st.integers(1, 3)), strict=False)
    else:
        sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
        options: dict[str, Any] = {"training": draw(st.booleans())} if name in ("sequential", "grouped", "interleaved") else {}
        if draw(st.booleans()):
            devices = draw(st.integers(1, sum(sizes)))
            rest = draw(st.lists(st.integers(0, devices - 1), min_size=sum(sizes) - devices, max_size=sum(sizes) - devices))
            options["device_mapping"] = draw(st.permutations([*range(devices), *rest]))
        schedule = schedules.SCHEDULES[name](sizes, count, strict=False, **options)
    if schedule.training and draw(st.booleans()):
        schedule = schedules.offloading(schedule, draw(st.lists(st.integers(0, schedule.stages - 1), unique=True)))
    changes: dict[str, Any] = {}
    if draw(st.booleans()):
        changes["name"] = draw(st.text(st.characters(codec=None)))  # with line ends, NUL, halves of surrogate pairs, ...
    if draw(st.booleans()):
        changes["weights"] = draw(st.sampled_from(["same", "stale", "stashed"]))
    if draw(st.booleans()):
        changes["tasks"] = (*schedule.tasks, *[()] * draw(st.integers(1, 2)))  # devices without tasks
    return dataclasses.replace(schedule, **changes)


@settings(deadline=None, max_examples=120)
@given(some_schedules())
def test_what_is_written_is_read_again(schedule: Schedule) -> None:
    text = schedule.to_csv()
    assert Schedule.from_csv(text) == schedule
    assert Schedule.from_csv("\ufeff" + text.replace("\n", "\r\n")) == schedule  # as spreadsheets write it
    assert Schedule.from_csv(text).simulate() == schedule.simulate()


@settings(deadline=None, max_examples=120)
@given(some_schedules())
def test_tasks_alone_are_written_where_they_are_all_there_is(schedule: Schedule) -> None:
    lost = [
        *([f"weights '{schedule.weights}'"] if schedule.weights != "same" else []),
        *(["serial=True"] if schedule.serial else []),
        *(["levels ("] if any(len(stages) > 1 for stages in schedule.levels) else []),
    ]
    if not lost:
        assert Schedule.from_csv(schedule.to_csv(tasks_only=True), name=schedule.name) == schedule
        return
    with pytest.raises(ValueError, match=r"(?s)rows of tasks cannot say what the schedule .*Leave tasks_only away") as caught:
        schedule.to_csv(tasks_only=True)
    assert all(each in str(caught.value) for each in lost)


def test_the_form_has_all_fields_of_a_schedule() -> None:
    header = {field.name for field in dataclasses.fields(Header)}
    assert header - {"devices"} == {field.name for field in dataclasses.fields(Schedule) if field.init} - {"tasks"}


def test_the_form_is_what_the_documents_say() -> None:
    assert schedules.grouped([1, 2, 1], 1, strict=False).to_csv() == WHOLE.replace("interleaved", "grouped")
    assert from_csv(WHOLE) == schedules.interleaved([1, 2, 1], 1, strict=False)
    assert schedules.grouped(1, 2).to_csv(tasks_only=True) == "0F0,0B0,0F1,0B1,0U\n"


def test_a_schedule_with_concurrent_stages_takes_as_long_as_before() -> None:
    schedule = schedules.interleaved([1, 2, 1], 6)
    assert Schedule.from_csv(schedule.to_csv()).simulate().makespan == schedule.simulate().makespan == 24
    rows = from_table(schedule.table()).simulate().makespan
    assert rows == 39  # the same tasks, one stage after the other


def test_another_name_and_devices_may_be_given() -> None:
    assert from_csv(WHOLE, name="mine") == dataclasses.replace(from_csv(WHOLE), name="mine")
    with pytest.raises(ValueError, match="device 0 has task 0F0, but stage 0 is on device 1"):
        from_csv(WHOLE, device_mapping=[1, 0, 2, 3])


def test_rows_of_tasks_are_read_as_pytorch_writes_them() -> None:
    text = "0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n"
    assert from_csv(text) == from_table([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]], name="CSV")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schedule 1", "schedule 2", "line 1 is '# tilestep schedule 2': this tilestep reads version 1"),
        ("schedule 1", "schedule " + "9" * 9999, "line 1 is '# tilestep schedule 9999.*: this tilestep reads version 1"),
        ("# tilestep schedule 1\n", "", r"line 1 is '# name: .*': it must be '# tilestep schedule 1', or a device's tasks"),
        ('# weights: "same"\n', "", 'line 8: the comment ends without \'# weights: ...\', which must be "same" or "stale" or "stashed"'),
        ("# serial: false\n", "# serial: false\n# serial: true\n", "line 9 is '# serial: true': serial stands in a line before"),
        ("# serial: false\n", "# colour: 1\n", "line 8 is '# colour: 1': it must be '# key: value', with one of the keys name, levels"),
        ("# serial: false\n", "#\n", "line 8 is '#': it must be '# key: value'"),
        ('"same"', '"stashd"', 'line 7: weights is "stashd": it must be "same" or "stale" or "stashed"'),
        ('"same"', "stashed", "line 7: weights is stashed: it must be "),
        ('"interleaved"', "7", "line 2: name is 7: it must be text"),
        ("false", "0", "line 8: serial is 0: it must be true or false"),
        ("[[0], [1, 2], [3]]", "[1, 2, 1]", r"line 3: levels is \[1, 2, 1\]: it must be a list of lists of stages"),
        ("[[0], [1, 2], [3]]", "[[0], [1, true], [3]]", r"line 3: levels is .*: it must be a list of lists"),
        ("[[0], [1, 2], [3]]", "[" * 100_000, r"line 3: levels is \[\[\[.*: it must be a list of lists"),
        ("[[0], [1, 2], [3]]", "[[0], [1, 2]]", r"levels \(\(0,\), \(1, 2\)\) must number the 4 stages .*device 0 are in line 9"),
        ("[0, 1, 2, 3]", "[0, 1, 2.5, 3]", r"line 4: device_mapping is \[0, 1, 2.5, 3\]: it must be a list with each stage's device"),
        ("[0, 1, 2, 3]", "[0, \x1b[31m1]", r"line 4: device_mapping is \[0, \\x1b\[31m1\]: it must be"),
        ("[0, 1, 2, 3]", "[0, 1, 2, 9999999999]", "names a device that has no tasks, 9999999999"),
        ("devices: 4", "devices: 5", "line 12: the text ends after 4 rows of tasks, but devices is 5"),
        ("3F0,3B0,3U\n", "", "line 11: the text ends after 3 rows of tasks, but devices is 4"),
        ("microbatches: 1", "microbatches: 1e400", "line 6: microbatches is 1e400: it must be a whole number"),
        ("microbatches: 1", "microbatches: " + "9" * 5000, "line 6: microbatches is 9999.*: it must be a whole number"),
        ("microbatches: 1", "microbatches: 99999999999999", "task 0F1 is missing, and .*the tasks of device 0 are in line 9"),
        ("microbatches: 1", "microbatches: 0", "microbatches is 0: it must be 1 or more"),
        ("1B0,1U", "1X0,1U", "line 10: '1X0' is no task"),
        ("1B0,1U", "1\0B0,1U", r"line 10: .*"),
        ("1B0,1U", "1B99999999999999,1U", "device 1 has task 1B99999999999999, but there are 1 microbatches"),
        ("1B0,1U", "1B" + "9" * 5000 + ",1U", "line 10: '1B9999.* is no task: it has a number of 5000 digits"),
        ("1B0,1U", "1B\N{ARABIC-INDIC DIGIT ZERO},1U", "line 10: .* is no task"),
        ("1B0,1U", '1B0,"1U', "line 12: unexpected end of data"),
        ("1B0,1U", "1B0", "task 1U0 is missing"),
        ("1B0,1U", "1B0,1U,1F0", "there is more than one of 1F0"),
        ("1B0,1U", "1B0," + "x" * 200_000, "line 10: field larger than field limit"),
    ],
)
def test_files_that_are_no_schedules_are_refused(old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(ValueError, match=message) as caught:
        Schedule.from_csv(WHOLE.replace(old, new))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the text is empty"),
        ("\ufeff", "line 1: the text is empty"),
        ("\n\n", "the table has no tasks"),
        ("0F0,0B0\n# serial: true\n", "line 2: '# serial: true' is no task"),
        ("0F0,0B0\n1F0,1X0\n", "line 2: '1X0' is no task"),
        ("0F99999999999999,0B0", "device 0 has task 0F99999999999999, but there are 2 tasks in all"),
        ("schedule.csv", r"'schedule.csv' is no task.*if it is a file's name, give the file's text: Path\(...\).read_text\(\)"),
        ("(0F0;1B1)OVERLAP_F_B,0B0", "line 1: .*is no task"),
    ],
)
def test_rows_that_are_no_schedules_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_csv(text)


@pytest.mark.parametrize("text", [Path("a.csv"), b"0F0,0B0"])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(TypeError, match=r"text is a .*: it must be a CSV file's text, such as Path\(...\).read_text\(\)"):
        Schedule.from_csv(text)
