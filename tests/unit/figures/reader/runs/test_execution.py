"""What ran, read from recordings: runs, spans, steps, blocks, causes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.unit.figures.reader.recorded import everything, larger, liveness, recorded, report_of, run_of, two_stages
from tests.unit.sim.toy import DISPATCH, LATENCY, Host, program, superstep
from tilestep import RecordingError
from tilestep.figures.reader import OnTileExecute, Report, StreamCopy
from tilestep.figures.reader.programs.compilation import Compilation
from tilestep.figures.reader.programs.totals import leaf_totals
from tilestep.figures.reader.runs.blocks import scopes_of
from tilestep.figures.reader.runs.causes import NOT_RECORDED, critical_path
from tilestep.figures.reader.runs.events import Events
from tilestep.plan.steps import Branch, Counts, HostCall, Loop, Series
from tilestep.profiling.measure import profile_between
from tilestep.recording.storage.container import Builder


def everything_ran() -> Report:
    """The report on two runs of a program of all kinds of nodes, on two IPUs."""
    called, counts = everything()
    return report_of(called, runs=2, counts=counts)


@pytest.mark.parametrize("unrolled", [False, True])
def test_the_spans_of_a_run_have_no_gap_and_add_up_to_the_run(unrolled: bool) -> None:
    report = everything_ran()
    for run in report.execution.runs:
        assert len(run.ipus) == 2
        for on_ipu in run.ipus:
            spans = list(on_ipu.spans(unrolled=unrolled))
            assert spans[0].cycles_from == on_ipu.cycles_from
            assert spans[-1].cycles_to == on_ipu.cycles_to
            assert all(a.cycles_to == b.cycles_from for a, b in pairwise(spans))
            assert sum(span.cycles for span in spans) == on_ipu.cycles


@pytest.mark.parametrize("unrolled", [False, True])
def test_compute_exchange_and_sync_of_the_spans_are_those_of_the_events(unrolled: bool) -> None:
    for run in everything_ran().execution.runs:
        for on_ipu in run.ipus:
            for kind in ("compute", "exchange", "sync", "collective", "host-call"):
                of_spans = sum(span.cycles for span in on_ipu.spans(unrolled=unrolled) if span.kind == kind)
                assert of_spans == sum(event.cycles for event in on_ipu.events if event.kind == kind), kind


def test_the_leaves_run_as_often_as_was_counted() -> None:
    first, second = everything_ran().execution.runs[0].ipus
    times = [{span.leaf.name: span.times for span in on_ipu.spans() if span.leaf} for on_ipu in (first, second)]
    assert times[0] == {"first": 1, "i": 10, "left": 3, "right": 1, "dear": 1, "all-reduce": 1, "call": 1}
    assert times[1] == {"first": 1, "i": 3, "right": 4, "dear": 1, "all-reduce": 1, "call": 1}


def test_unrolled_loops_that_depend_on_data_get_equal_shares() -> None:
    first = everything_ran().execution.runs[0].ipus[0]
    names = [span.leaf.name for span in first.spans(unrolled=True) if span.leaf and span.kind == "compute"]
    assert names == ["first", *"iii", "left", *"iii", "left", *"ii", "left", *"ii", "right", "dear", "all-reduce"]


def test_the_steps_of_a_run_add_up_to_its_busy_cycles() -> None:
    for run in everything_ran().execution.runs:
        for number, on_ipu in enumerate(run.ipus):
            assert sum(step.ipus[number].cycles for step in run.steps) == sum(event.cycles for event in on_ipu.events)


def test_each_step_knows_the_ipus_up_to_the_last_that_did_anything() -> None:
    host = Host(on=larger(6))
    called = two_stages()
    for ipu in (0, 2):
        host.run(called, host.put(100, ipu=ipu), ipu=ipu)
    execution = Report(recorded(host, [called])).execution
    assert execution.num_ipus_used == 3
    spent = [[on_ipu.cycles for on_ipu in step.ipus] for step in execution.steps if step.name == "a"]
    assert spent == [[5 * 10, 0, 0], [0, 0, 5 * 10]]


def test_steps_come_in_the_order_of_the_program_between_transfers() -> None:
    steps = report_of(two_stages()).execution.runs[0].steps
    assert [step.name for step in steps] == ["load", "stream-in", "before", "a", "b", "after", "stream-out"]
    assert [step.executions for step in steps] == [1, 1, 1, 5, 5, 1, 1]
    assert isinstance(steps[0].program, StreamCopy)
    assert isinstance(steps[3].program, OnTileExecute)
    assert steps[3].ipus[0].cycles == 5 * 10


def test_a_loop_of_two_stages_is_ten_intervals() -> None:
    blocks = list(report_of(two_stages()).execution.blocks(pattern="stage"))
    assert [block.name for block in blocks] == [*["stage_a", "stage_b"] * 5, "stage_b"]
    assert [block.cycles for block in blocks] == [*[10, 11] * 5, 3]
    assert all(a.cycles_to <= b.cycles_from for a, b in pairwise(blocks))
    body = report_of(two_stages()).execution.runs[0].ipus[0]
    assert blocks[0].cycles_from == next(event.cycles_from for event in body.events if event.kind == "compute") + 4


def test_blocks_are_filtered_by_an_expression() -> None:
    execution = report_of(two_stages()).execution
    assert {block.name for block in execution.blocks(pattern="_a$")} == {"stage_a"}
    assert [block.name for block in execution.blocks(pattern="none", programs="two")] == ["two_stages"]
    with pytest.raises(RecordingError, match="'\\(' is no regular expression"):
        list(execution.blocks(pattern="("))


@pytest.mark.parametrize(
    ("notes", "names"),
    [
        ({}, {"stage_a", "stage_b"}),
        ({"blocks": ["stage_b"]}, {"stage_b"}),
        ({"blocks": []}, set()),
        ({"block_programs": ["two_stages"]}, {"two_stages", "stage_a", "stage_b"}),
        ({"blocks": ["stage_a", 3, None], "block_programs": "two_stages"}, {"stage_a"}),
    ],
)
def test_blocks_are_those_that_the_process_has_chosen(notes: dict[str, object], names: set[str]) -> None:
    execution = report_of(two_stages(), notes=notes).execution
    assert {block.name for block in execution.blocks()} == names
    assert {block.name for block in execution.blocks(pattern="_a$", programs="none")} == {"stage_a"}


def test_inner_blocks_lie_within_outer_ones() -> None:
    report = everything_ran()
    blocks = list(report.execution.blocks(programs=""))
    outer, inner = ([block for block in blocks if block.name == name] for name in ("outer", "in"))
    assert len(inner) == 2 * 10
    assert all(any(o.cycles_from <= i.cycles_from and i.cycles_to <= o.cycles_to for o in outer) for i in inner)
    runs = [block for block in blocks if block.name == "everything"]
    assert [(block.cycles_from, block.cycles_to) for block in runs] == [
        (run.ipus[0].cycles_from, run.ipus[0].cycles_to) for run in report.execution.runs
    ]
    assert blocks == sorted(blocks, key=lambda block: (block.cycles_from, -block.cycles_to))


def test_a_loop_of_very_many_trips_is_passed_where_no_block_matches() -> None:
    execution = report_of(two_stages(trips=10**9)).execution
    assert list(execution.blocks(pattern="nothing")) == []
    assert sum(span.cycles for span in execution.runs[0].ipus[0].spans()) == execution.runs[0].cycles


def test_a_loop_of_very_many_trips_is_an_error_where_it_is_unrolled() -> None:
    execution = report_of(two_stages(trips=10**9)).execution
    with pytest.raises(RecordingError, match="3000000001 executions of steps to lay out one by one: at most 200,000 are; filter by scope"):
        list(execution.blocks(pattern="stage"))
    with pytest.raises(RecordingError, match="3000000002 executions of steps to lay out one by one: at most 1,000,000 are"):
        sum(1 for _ in execution.runs[0].ipus[0].spans(unrolled=True))


def test_a_loop_of_very_many_trips_that_do_nothing_is_an_error_where_it_is_unrolled() -> None:
    branch = Branch(name="b", scope="", arms=(Series(nodes=(superstep(3),)),), site=1)
    called = program(superstep(1), Loop(name="l", scope="", body=Series(nodes=(branch,)), trips=10**12, site=None))
    execution = report_of(called, counts=[Counts(times={(1, 0): 0})]).execution
    with pytest.raises(RecordingError, match=r"100000000000\d executions"):
        list(execution.runs[0].ipus[0].spans(unrolled=True))


def test_the_critical_path_of_all_events_goes_from_the_begin_to_the_end() -> None:
    for report in (everything_ran(), report_of(two_stages(), runs=3)):
        path = report.execution.critical_path()
        assert path.complete
        assert path.cycles_from == 0
        assert path.cycles == path.cycles_to == int(report.execution.events.column("end").max())
        assert all(a.cycles_to == b.cycles_from for a, b in pairwise(path.pieces))


def test_a_critical_path_through_runs_that_were_not_kept_says_that_it_is_not_complete() -> None:
    host = run_of(two_stages(), runs=6)
    kept = Report(recorded(host, list(host._programs), runs_in_detail=2)).execution
    assert [run.in_detail for run in kept.runs] == [True, False, False, False, False, True]
    path = kept.critical_path()
    assert not path.complete
    assert path.cycles_from > 0


def test_each_wait_has_a_reason() -> None:
    host = Host(on=run_of(two_stages()).system.machine)
    short = program(superstep(3))
    for _ in range(40):
        host.run(short)
    execution = Report(recorded(host, [short])).execution
    waits = list(execution.waits(execution.lane("ipu", 0)))
    assert waits
    assert {wait.reason for wait in waits} == {"the host had not dispatched it before: dispatches · f"}
    assert all(wait.cycles == DISPATCH - 3 for wait in waits[-5:])


def test_a_gap_in_which_runs_were_not_kept_is_no_wait() -> None:
    host = Host(on=run_of(two_stages()).system.machine)
    short, other = program(superstep(3), name="f"), program(superstep(5), name="g")
    for _ in range(6):
        host.run(short)
        host.run(other)
    for _ in range(4):
        host.run(short)
    programs = [short, other]
    full, kept = (Report(recorded(host, programs, runs_in_detail=most)).execution for most in (1000, 4))
    lacking = 0
    for lane in kept.lanes:
        assert not list(full.unkept(full.lanes[lane.index]))
        waits = {(wait.cycles_from, wait.cycles_to, wait.reason) for wait in full.waits(full.lanes[lane.index])}
        assert {(wait.cycles_from, wait.cycles_to, wait.reason) for wait in kept.waits(lane)} <= waits
        known = {(event.cycles_from, event.cycles_to) for event in kept.events_of(lane)}
        missing = [event for event in full.events_of(full.lanes[lane.index]) if (event.cycles_from, event.cycles_to) not in known]
        gaps = list(kept.unkept(lane))
        assert all(any(gap.cycles_from <= event.cycles_from and event.cycles_to <= gap.cycles_to for gap in gaps) for event in missing)
        assert all(gap.reason == NOT_RECORDED and gap.cycles > 0 for gap in gaps)
        lacking += len(gaps)
    assert lacking


def test_between_runs_that_were_kept_one_after_the_other_an_ipu_waits() -> None:
    host = Host(on=larger())
    short = program(superstep(3))
    for _ in range(40):
        host.run(short)
    execution = Report(recorded(host, [short], runs_in_detail=8)).execution
    assert [run.in_detail for run in execution.runs] == [True] * 4 + [False] * 32 + [True] * 4
    first = execution.lane("ipu", 0)
    assert [wait.cycles for wait in execution.waits(first)] == [DISPATCH - 3] * 3  # between the last four
    assert len(list(execution.unkept(first))) == 1


def test_an_ipu_that_lacks_no_run_only_waits() -> None:
    host = Host(on=larger(2))
    short, other = program(superstep(3), name="f"), program(superstep(5), name="g")
    for _ in range(2):
        host.run(short, ipu=0)
        for _ in range(99):
            host.run(other, ipu=1)
    execution = Report(recorded(host, [short, other], runs_in_detail=2)).execution
    first, second = execution.lane("ipu", 0), execution.lane("ipu", 1)
    assert list(execution.waits(first))
    assert not list(execution.unkept(first))
    assert list(execution.unkept(second))


def test_lanes_have_names() -> None:
    names = {lane.name for lane in everything_ran().execution.lanes}
    assert {"host", "IPU 0", "IPU 1", "host link to IPU-Machine 0", "host link from IPU-Machine 0"} <= names


def test_a_lane_that_is_not_there_is_an_error() -> None:
    with pytest.raises(RecordingError, match="no lane 'gateway' 3"):
        report_of(two_stages()).execution.lane("gateway", 3)


def test_the_total_is_that_of_the_sums() -> None:
    host = run_of(two_stages(), runs=6)
    total = Report(recorded(host, list(host._programs), runs_in_detail=2)).execution.total_cycles
    assert total.total == host.system.end_cycle
    assert total.by_kind["compute"] == 6 * (4 + 5 * 17 + 3)


def test_a_run_knows_its_trips() -> None:
    report = report_of(two_stages(trips=None, site=4), counts=[Counts(times={(4, 0): 7})])
    (on_ipu,) = report.execution.runs[0].ipus
    assert on_ipu.trips == {(4, 0): 7}
    assert sum(block.name == "stage_a" for block in report.execution.blocks()) == 7


def test_walking_over_the_reader_is_what_graphcores_library_needs() -> None:
    report = report_of(two_stages(), runs=3, detail=liveness())
    assert report.compilation.target.num_tiles == 16
    assert sum(step.ipus[0].cycles for step in report.execution.steps) > 0
    assert report.execution.runs[0].name == "two_stages"
    assert report.execution.total_cycles.total > 0
    for block in report.execution.blocks(0):
        assert block.cycles_from < block.cycles_to
        assert block.program.name


def test_a_critical_path_of_events_that_take_no_time_is_the_last_one() -> None:
    builder = Builder(kind="run")
    builder.extend("lanes", kind=np.array([1]), number=np.array([0]), target=np.array([-1]))
    numbers = {"start": [5, 5], "end": [5, 5], "cause": [1, -1], "run": [-1, -1], "program": [-1, -1], "lane": [0, 0], "kind": [3, 3]}
    builder.extend("events", **{name: np.array(column) for name, column in numbers.items()})
    path = critical_path(Events(builder.tables()))
    assert (path.cycles, path.cycles_from, path.cycles_to, path.complete) == (0, 5, 5, True)


def test_a_scope_that_no_program_has_is_an_error() -> None:
    with pytest.raises(RecordingError, match=r"an operation has the scope 'jvp\(jvp.* of 60,003 characters: at most 10,000 are read"):
        scopes_of("jvp(" * 12_000 + "a" + ")" * 12_000 + "/b")


def test_steps_of_the_profile_are_those_of_the_recording() -> None:
    """Also of the IPU that takes other ways through loops and branches than the first, because it is the slower one."""
    called, counts = everything()
    host = run_of(called, runs=2, counts=counts)
    profile = profile_between(host.system, host.start, host.system.mark())
    (found,) = Report(recorded(host, [called])).programs
    assert found.total.ipu == 1
    totals = {total.leaf.name: (total.executions, total.cycles.compute, total.cycles.sync) for total in leaf_totals(found)}
    assert totals == {step.name: (step.executions, step.compute, step.sync) for step in profile.supersteps}
    assert totals["i"][0] == 6


@pytest.mark.parametrize(("ipus", "sharers"), [((0, 1), 2), ((0, 2), 1)])
def test_accesses_to_pinned_host_cost_what_they_do_where_the_program_ran(ipus: tuple[int, int], sharers: int) -> None:
    """IPUs of one IPU-Machine share its streaming memory, those of two do not: in the trace, the profile and the tree alike."""
    kept = HostCall(name="device_put", scope="jit(f)/device_put", bytes_to_host=300, bytes_from_host=0, in_memory=True)
    called = program(superstep(40, 10, 5), kept, takes=(300,), gives=(200,), num_ipus=2)
    on = larger(4)
    host = Host(on=replace(on, host=replace(on.host, streaming_memory_bytes=10_000)))
    for _ in range(2):
        host.run_on(ipus, called, [[host.put(300, ipu=ipu)] for ipu in ipus])
    (profiled,) = profile_between(host.system, host.start, host.system.mark()).programs
    report = Report(recorded(host, [called]))
    (found,) = report.compilation.programs
    assert found.ipus == ipus
    told = sum(total.cycles.host_call for total in leaf_totals(found))
    assert told == 2 * (LATENCY + sharers * 300)
    in_memory = Compilation(report.tables, report.target, {0: host.system.mark().programs[host.key(called)]}).programs[0]
    for compiled in (found, in_memory):
        costs = [compiled.cost(on).fixed.host_call for on in (None, (0, 1), (0, 2))]
        assert costs == [told // 2, LATENCY + 2 * 300, LATENCY + 300]
    assert told == sum(family.host for family in profiled.families)
    syncs = found.total.by_kind["host-call"] - told
    assert 0 < syncs < told / 10
