"""Two recordings side by side, and what is in one of them."""

from dataclasses import replace

import pytest

from tests.unit.figures.reader.recorded import everything, larger, liveness, named_programs, recorded, report_of, run_of, step, two_stages
from tests.unit.sim.toy import Host, program
from tilestep.figures.comparison import Change, compare
from tilestep.figures.reader import Report
from tilestep.figures.rows import program_row, step_rows
from tilestep.plan.steps import Counts


def test_equal_recordings_have_no_difference() -> None:
    found = compare(report_of(two_stages(), runs=3), report_of(two_stages(), runs=3))
    assert found.machines == ()
    assert found.steps == ()
    assert found.slower(0) == ()
    assert [(each.name, each.matched) for each in found.programs] == [("two_stages", "fingerprint")]
    assert found.emulated_cycles.relative == 0


def test_the_whole_of_a_run_that_was_ended_is_not_slower() -> None:
    ended, whole, longer = (report_of(two_stages(trips=trips)) for trips in (1000, 1000, 2000))
    found = replace(compare(ended, longer), ended_by=("SIGTERM", ""))
    assert found.slower(0) == ("program 'two_stages'",)
    assert compare(ended, whole).ended_by == ("", "")


def test_any_cycle_is_a_difference() -> None:
    found = compare(report_of(two_stages(trips=1000)), report_of(two_stages(trips=1001)))
    assert found.slower(0) == ("the whole", "program 'two_stages'")
    assert found.slower(0.02) == ()
    assert [(each.line, each.scope.rpartition("/")[2], each.cycles_per_run.a, each.cycles_per_run.b) for each in found.steps] == [
        ("", "add", 11_000, 11_011),
        ("train.py:3", "dot", 10_000, 10_010),
    ]


def test_faster_is_not_slower() -> None:
    found = compare(report_of(two_stages(trips=6)), report_of(two_stages(trips=5)))
    assert found.slower(0) == ()
    assert len(found.steps) == 2


def test_programs_of_other_fingerprints_are_matched_by_name_in_their_order() -> None:
    first, second, other = program(step("a", "", 1)), program(step("b", "", 2)), program(step("c", "", 3), name="g")
    a, b = Host(on=larger()), Host(on=larger())
    for called in (first, second):
        a.run(called)
    changed = [program(step("a", "", 10)), program(step("b", "", 20))]
    for called in (other, *changed):
        b.run(called)
    found = compare(Report(recorded(a, [first, second])), Report(recorded(b, [other, *changed])))
    pairs = [(each.name, each.matched, each.cycles_per_run.a, each.cycles_per_run.b) for each in found.programs]
    assert pairs == [("f", "name", 2, 20), ("f", "name", 1, 10), ("g", "", None, 3)]
    assert [each.label for each in found.programs] == ["f #2 in A, #3 in B", "f #1 in A, #2 in B", "g"]
    assert [each.keys for each in found.programs] == [(2, 3), (1, 2), (None, 1)]
    assert {each.program for each in found.steps} == {"f #2 in A, #3 in B", "f #1 in A, #2 in B"}
    assert found.slower(0.1)[1:] == ("program 'f #2 in A, #3 in B'", "program 'f #1 in A, #2 in B'")


def test_the_largest_change_comes_first_and_what_one_has_alone_last() -> None:
    found = compare(
        named_programs(("a", 10), ("b", 10), ("c", 10), ("old", 1), ("older", 5)),
        named_programs(("new", 3), ("a", 10), ("b", 11), ("c", 1), ("newer", 7)),
    )
    assert [each.name for each in found.programs] == ["c", "b", "a", "older", "old", "newer", "new"]
    assert [each.name for each in found.both] == ["c", "b", "a"]
    assert [each.name for each in found.only("A")] == ["older", "old"]
    assert [each.name for each in found.only("B")] == ["newer", "new"]
    assert [each.differs for each in found.both] == [True, True, False]


def test_programs_of_one_name_with_equal_keys_are_told_apart_by_the_key() -> None:
    found = compare(named_programs(("f", 1), ("f", 2), ("g", 1)), named_programs(("f", 1), ("f", 4), ("g", 1)))
    assert sorted(each.label for each in found.programs) == ["f #1", "f #2", "g"]


def test_equal_fingerprints_match_before_equal_names() -> None:
    found = compare(named_programs(("f", 1), ("f", 2)), named_programs(("f", 2), ("f", 9)))
    assert [(each.matched, each.keys) for each in found.programs] == [("name", (1, 2)), ("fingerprint", (2, 1))]


def test_machines_that_differ_say_so() -> None:
    slow = larger()
    host = Host(on=replace(slow, host=replace(slow.host, to_ipus_bytes_per_second=slow.host.to_ipus_bytes_per_second * 2)))
    called = program(step("a", "", 1), takes=(100,))
    host.run(called, host.put(100))
    fast = Host(on=slow)
    fast.run(called, fast.put(100))
    found = compare(Report(recorded(host, [called])), Report(recorded(fast, [called])))
    assert found.machines == (("host.to_ipus_bytes_per_second", 2e6, 1e6),)
    assert found.slower(0.1) == ("the whole", "program 'f'")


def test_how_many_ipus_are_simulated_makes_no_other_machine() -> None:
    called = program(step("a", "", 1), takes=(100,))
    reports: list[Report] = []
    for simulated in (0, 1):
        host = Host(on=replace(larger(), simulated_ipus=simulated))
        host.run(called, host.put(100))
        reports.append(Report(recorded(host, [called])))
    found = compare(*reports)
    assert (found.machines, found.emulated_cycles.a) == ((), found.emulated_cycles.b)


def test_times_decide_where_clocks_differ() -> None:
    a, b = report_of(two_stages(trips=6), clock_hz=2e6), report_of(two_stages(trips=5))
    found = compare(a, b)
    assert not found.one_clock
    assert found.emulated_cycles == Change(a=a.execution.total_cycles.total, b=b.execution.total_cycles.total)
    assert found.emulated_s == Change(a=a.execution.total_cycles.total / 2e6, b=b.execution.total_cycles.total / 1e6)
    [changed] = found.programs
    assert changed.cycles_per_run.relative is not None
    assert changed.cycles_per_run.relative < 0, "fewer cycles, each of twice the time"
    assert changed.emulated_s_per_run.relative == pytest.approx(2 * (1 + changed.cycles_per_run.relative) - 1)
    assert found.slower(0) == ("the whole", "program 'two_stages'")
    assert compare(b, a).slower(0) == ()
    [dot] = [each for each in found.steps if each.line]
    assert (dot.cycles_per_run, dot.emulated_s_per_run) == (Change(a=60, b=50), Change(a=60 / 2e6, b=50 / 1e6))


def test_equal_cycles_of_two_clocks_are_no_equal_time() -> None:
    found = compare(report_of(two_stages()), report_of(two_stages(), clock_hz=2e6))
    assert found.slower(0) == ()
    assert {each.cycles_per_run.relative for each in found.steps} == {0}
    assert {each.emulated_s_per_run.relative for each in found.steps} == {-0.5}
    assert found.both[0].differs


def test_a_line_that_moved_is_still_the_same_step() -> None:
    moved = two_stages(trips=6)
    moved = replace(moved, frames=tuple(replace(frame, line=frame.line + 10) for frame in moved.frames))
    found = compare(report_of(two_stages()), report_of(moved))
    assert [(each.line, each.cycles_per_run.a, each.cycles_per_run.b) for each in found.steps if each.line] == [("train.py:13", 50, 60)]


def test_a_change_is_a_part_of_the_first() -> None:
    for a, b, relative in ((100, 102, 0.02), (0, 0, 0.0), (0, 1, float("inf")), (None, 1, None), (1, None, None)):
        assert Change(a=a, b=b).relative == (None if relative is None else pytest.approx(relative)), a


def test_rows_add_up_all_runs() -> None:
    host = run_of(two_stages(), runs=7)
    (called,) = host._programs
    report = Report(recorded(host, [called], {called.name: liveness()}, runs_in_detail=2))
    (row,), steps = map(program_row, report.programs), step_rows(report)
    assert (row["runs"], row["loads"], row["peak_tile_bytes"]) == (7, 1, called.memory.peak_bytes)
    assert row["cycles_by_kind"]["compute"] == 7 * (4 + 5 * 17 + 3) == sum(step.compute for step in steps)
    assert [(step.line, step.executions, step.cycles) for step in steps if step.line] == [("train.py:3", 35, 350)]
    assert report.execution.total_cycles.total == host.system.end_cycle


def test_rows_count_the_trips_of_all_runs() -> None:
    called = two_stages(trips=None, site=1)
    found = step_rows(report_of(called, runs=3, counts=[Counts(times={(1, 0): 7})]))
    assert {step.executions for step in found if "stage_a" in step.scope} == {21}


def test_the_rows_of_everything_are_those_of_the_slowest_ipu() -> None:
    called, counts = everything()
    report = report_of(called, counts=counts)
    found = step_rows(report)
    assert report.programs[0].total.ipu == 1, "its code comes after that of IPU 0"
    assert {step.scope.rpartition("/")[2]: step.executions for step in found if step.scope}["mul"] == 3
