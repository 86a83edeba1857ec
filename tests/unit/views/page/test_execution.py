"""The block of execution: its events, its spans within runs, its critical path and its waits are the reader's, also beyond its bounds."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.unit.figures.reader.recorded import everything, recorded, report_of, run_of, two_stages
from tests.unit.sim.toy import Host
from tilestep.errors import RecordingError
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.reader import Report
from tilestep.figures.reader.runs.spans import WAIT, Span
from tilestep.plan.steps import Counts
from tilestep.recording.schema import EVENT_KINDS, LANE_KINDS, TABLES
from tilestep.recording.storage.container import Builder
from tilestep.sim.calls import Dispatch
from tilestep.views.page.block import PageBlock, packed
from tilestep.views.page.sections.execution import run_spans, waits
from tilestep.views.page.sections.execution.section import execution


def block_of(report: Report, **bounds: int) -> PageBlock:
    found = execution(report, **bounds)
    assert found is not None
    assert packed(found)
    return found


class Shown:
    """A block as the page's JavaScript reads it."""

    def __init__(self, block: PageBlock) -> None:
        self.json: Any = block.json
        self.columns = block.columns
        self.lane: list[int] = []
        self.start: list[int] = []
        row = 0
        for index, lane in enumerate(self.json["lanes"]):
            clock = lane["first"]
            for _ in range(lane["events"]):
                clock += int(block.columns["gap"][row])
                self.lane.append(index)
                self.start.append(clock)
                clock += int(block.columns["cycles"][row])
                row += 1
        self.end = [start + int(cycles) for start, cycles in zip(self.start, block.columns["cycles"], strict=True)]
        self.run = np.cumsum(block.columns["run"]).tolist()
        self.cause = [
            -1 if back == 0 else -2 if back == self.json["cut"] else row - back for row, back in enumerate(block.columns["back"].tolist())
        ]

    def event(self, row: int) -> tuple[str, str, int, int, int, int]:
        kind, program = EVENT_KINDS[int(self.columns["kind"][row])], int(self.columns["program"][row])
        return self.json["lanes"][self.lane[row]]["name"], kind, self.start[row], self.end[row], self.run[row], program

    def spans(self, run: int, ipu: int) -> list[tuple[str, int, int, int | None, int]]:
        """As views/execution/spans.js works them out."""
        found: list[tuple[str, int, int, int | None, int]] = []
        clock: int | None = None
        for row in (row for row, of in enumerate(self.run) if of == run):
            lane = self.json["lanes"][self.lane[row]]
            if (lane["kind"], lane["number"]) != ("ipu", ipu):
                continue
            if clock is not None and self.start[row] > clock:
                found.append((WAIT, clock, self.start[row], None, 1))
            layout = int(self.columns["layout"][row])
            if layout >= 0:
                clock = self.start[row]
                begin, end = self.columns["layout_begin"][layout : layout + 2].tolist()
                for span in range(begin, end):
                    kind, cycles, leaf, times = (int(self.columns[f"span_{name}"][span]) for name in ("kind", "cycles", "leaf", "times"))
                    number = None if leaf < 0 else self.json["leaves"][leaf][1]
                    found.append((EVENT_KINDS[kind], clock, clock + cycles, number, times))
                    clock += cycles
            elif clock is None or self.end[row] > clock:
                begin = self.start[row] if clock is None else max(clock, self.start[row])
                found.append((EVENT_KINDS[int(self.columns["kind"][row])], begin, self.end[row], None, 1))
                clock = self.end[row]
        return found


def told(spans: list[Span]) -> list[tuple[str, int, int, int | None, int]]:
    return [(span.kind, span.cycles_from, span.cycles_to, span.leaf.leaf if span.leaf else None, span.times) for span in spans]


def everything_ran(*, runs: int = 1) -> Report:
    called, counts = everything()
    return report_of(called, runs=runs, counts=counts)


def alone_with_trips(*trips: int) -> Report:
    """Runs of a loop that takes other trips each time."""
    called = two_stages(trips=None, site=1)
    host = run_of(called, counts=[Counts(times={(1, 0): trips[0]})])
    for count in trips[1:]:
        [value] = [host.put(argument.size_bytes, ipu=0) for argument in called.arguments]
        host.system.dispatch(
            called,
            Dispatch(key=host.key(called), ipus=(0,), arguments=[[value]], results=[[host.name()]], counts=[Counts(times={(1, 0): count})]),
        )
    return Report(recorded(host, [called]))


def on_later_ipus() -> Report:
    """A program on two IPUs of four, in an order of its own."""
    called, counts = everything()
    host = Host(on=run_of(replace(called, num_ipus=4), counts=[*counts, *counts]).system.machine)
    for ipus in ((2, 3), (3, 1)):
        values = [[host.put(10, ipu=ipu)] for ipu in ipus]
        results = [[host.name()] for _ in ipus]
        host.system.dispatch(called, Dispatch(key=host.key(called), ipus=ipus, arguments=values, results=results, counts=counts))
    return Report(recorded(host, [called]))


def random_report(seed: int, count: int = 300, lanes: int = 6) -> Report:
    """Events at random, some of which overlap, with causes at random."""
    random = np.random.default_rng(seed)
    tables = report_of(two_stages()).tables
    builder = Builder(kind="run")
    for text in tables.strings:
        builder.string(text)
    for table in ("frames", "programs", "runs"):
        builder.extend(table, **{name: tables.column(table, name) for name in tables_of(table)})
    for text in ("trees", "machine", "profile"):
        builder.put_text(text, tables.text(text))
    for lane in range(lanes):
        builder.append("lanes", kind=lane % len(LANE_KINDS), number=lane // 2, target=-1)
    start = np.sort(random.integers(0, 5_000, count))
    builder.extend(
        "events",
        lane=random.integers(0, lanes - 1, count),
        kind=random.integers(0, len(EVENT_KINDS), count),
        start=start,
        end=start + random.integers(0, 40, count),
        run=random.integers(-1, 1, count),
        program=random.integers(-1, 1, count),
        cause=np.where(random.random(count) < 0.2, -1, (np.arange(count) * random.random(count)).astype(np.int64) - 1),
    )
    return Report(builder.tables())


def tables_of(table: str) -> tuple[str, ...]:
    return tuple(TABLES[table])


REPORTS = {
    "everything": everything_ran,
    "again": lambda: everything_ran(runs=3),
    "loop": lambda: report_of(two_stages(), runs=2),
    "trips": lambda: alone_with_trips(3, 7, 3),
    "later": on_later_ipus,
    "random": lambda: random_report(1),
}


@pytest.mark.parametrize("name", REPORTS)
def test_events_are_those_of_the_recording_with_their_causes(name: str) -> None:
    report = REPORTS[name]()
    shown, events = Shown(block_of(report)), report.execution.events
    by_lane = [(lane, event) for lane in report.execution.lanes for event in report.execution.events_of(lane)]
    rows = {event.index: row for row, (_, event) in enumerate(sorted(by_lane, key=lambda pair: order(shown, pair[0].name)))}
    assert len(rows) == len(events) == len(shown.start)
    for lane, event in by_lane:
        row = rows[event.index]
        assert shown.event(row) == (lane.name, event.kind, event.cycles_from, event.cycles_to, event.run, event.program)
        assert shown.cause[row] == (-1 if event.cause < 0 else rows[event.cause])


def order(shown: Shown, lane: str) -> int:
    return [each["name"] for each in shown.json["lanes"]].index(lane)


def test_lanes_come_in_the_order_in_which_data_flow() -> None:
    kinds = [lane["kind"] for lane in block_of(everything_ran()).json["lanes"]]
    assert kinds == sorted(kinds, key=("host", "to-ipus", "to-host", "ipu", "io", "link", "gateway", "memory").index)


@pytest.mark.parametrize("name", ["everything", "again", "loop", "trips", "later"])
@pytest.mark.parametrize("most", [run_spans.MOST_UNROLLED, 0])
def test_spans_within_runs_are_the_readers_to_the_cycle(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_spans, "MOST_UNROLLED", most)
    report = REPORTS[name]()
    shown = Shown(block_of(report))
    compared = 0
    for run in report.execution.runs:
        for on_ipu in run.ipus:
            assert shown.spans(run.index, on_ipu.ipu) == told(list(on_ipu.spans(unrolled=most > 0)))
            compared += 1
    assert compared == sum(len(run.ipus) for run in report.execution.runs) > 0
    assert shown.json["layouts"]["left_out"] == 0
    assert set(shown.json["layouts"]["unrolled"]) == {most > 0}


def test_equal_runs_have_their_spans_once() -> None:
    one, many = (block_of(everything_ran(runs=runs)).columns for runs in (2, 6))
    assert len(many["span_kind"]) == len(one["span_kind"])
    assert np.count_nonzero(many["layout"] >= 0) == 3 * np.count_nonzero(one["layout"] >= 0)


def test_runs_with_other_trips_have_other_spans() -> None:
    shown = Shown(block_of(alone_with_trips(3, 7, 3)))
    assert len(shown.json["layouts"]["program"]) == 2


def test_layouts_beyond_the_bounds_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = block_of(alone_with_trips(3, 7, 3))
    monkeypatch.setattr(run_spans, "MOST_LAYOUTS", 1)
    block = block_of(alone_with_trips(3, 7, 3))
    assert block.json["layouts"]["left_out"] == 1
    assert np.count_nonzero(block.columns["layout"] >= 0) == np.count_nonzero(whole.columns["layout"] >= 0) - 1
    monkeypatch.setattr(run_spans, "MOST_SPANS", 0)
    assert block_of(alone_with_trips(3, 7, 3)).json["layouts"]["left_out"] == 3


@pytest.mark.parametrize("name", REPORTS)
def test_the_critical_path_is_the_readers(name: str) -> None:
    report = REPORTS[name]()
    shown, expected = Shown(block_of(report)), report.execution.critical_path()
    rows = shown.columns["path"].tolist()
    ends = [shown.json["path"]["begin"], *(shown.end[row] for row in rows)]
    assert [(*shown.event(row)[:4], begin, end) for row, (begin, end) in zip(rows, pairwise(ends), strict=True)] == [
        (piece.event.lane.name, piece.event.kind, piece.event.cycles_from, piece.event.cycles_to, piece.cycles_from, piece.cycles_to)
        for piece in expected.pieces
    ]
    path = shown.json["path"]
    assert (path["complete"], path["pieces"], path["cycles"]) == (expected.complete, len(expected.pieces), expected.cycles)


def test_the_latest_pieces_stay_where_a_path_has_more_than_a_page_may_hold() -> None:
    report = random_report(2)
    pieces = report.execution.critical_path().pieces
    shown = Shown(block_of(report, most_events=2))
    assert shown.json["path"]["pieces"] == len(pieces) > 2
    rows = shown.columns["path"].tolist()
    assert [(shown.start[row], shown.end[row]) for row in rows] == [
        (piece.event.cycles_from, piece.event.cycles_to) for piece in pieces[-2:]
    ]
    assert shown.json["path"]["begin"] == pieces[-2].cycles_from


def wait_sums(shown: Shown, report: Report) -> Counter[tuple[str, str]]:
    """Cycles by lane and sentence, with the words of views/execution/model.js."""
    found: Counter[tuple[str, str]] = Counter()
    names = [program.name for program in report.compilation.programs]
    columns = [shown.columns[f"wait_{name}"].tolist() for name in ("lane", "of", "kind", "program", "cycles")]
    for lane, of, kind, program, cycles in zip(*columns, strict=True):
        what = KIND_TEXTS[EVENT_KINDS[kind]] + (f" · {names[program]}" if program >= 0 else "")
        if of < 0:
            reason = "what it waited for is not in the recording"
        elif shown.json["lanes"][of]["kind"] == "host":
            reason = f"the host had not dispatched it before: {what}"
        elif of == lane:
            reason = f"its own work had to end: {what}"
        else:
            reason = f"{shown.json['lanes'][of]['name']} had to end: {what}"
        found[shown.json["lanes"][lane]["name"], reason] += cycles
    return found


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("most_events", [2_000_000, 5])
def test_waits_are_the_readers_also_those_of_events_that_are_left_out(name: str, most_events: int) -> None:
    report = REPORTS[name]()
    expected: Counter[tuple[str, str]] = Counter()
    times = longest = 0
    for lane in report.execution.lanes:
        for wait in report.execution.waits(lane):
            expected[lane.name, wait.reason] += wait.cycles
            times, longest = times + 1, max(longest, wait.cycles)
    shown = Shown(block_of(report, most_events=most_events))
    assert wait_sums(shown, report) == expected
    assert int(shown.columns["wait_times"].sum()) == times
    assert int(shown.columns["wait_longest"].max(initial=0)) == longest
    assert np.all(np.diff(shown.columns["wait_cycles"]) <= 0)


@pytest.mark.parametrize("most_events", [2_000_000, 12])
def test_gaps_without_events_are_the_readers_and_no_waits(most_events: int) -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=9), [called], runs_in_detail=4))
    shown = Shown(block_of(report, most_events=most_events))
    lanes = {lane.name: lane for lane in report.execution.lanes}
    expected: Counter[tuple[str, str]] = Counter()
    for each in shown.json["lanes"]:
        unkept = list(report.execution.unkept(lanes[each["name"]]))
        assert each["unkept"] == sum(gap.cycles for gap in unkept)
        events = report.execution.events_of(lanes[each["name"]])
        assert each["span"] == max(event.cycles_to for event in events) - events[0].cycles_from
        expected |= Counter((wait.lane.name, wait.reason) for wait in report.execution.waits(lanes[each["name"]]))
    assert sum(each["unkept"] for each in shown.json["lanes"]) > 0
    assert wait_sums(shown, report).keys() == expected.keys()
    holes = {
        (shown.json["lanes"][shown.lane[row]]["name"], shown.end[row - 1], shown.start[row]): int(hole)
        for row, hole in enumerate(shown.columns["hole"].tolist())
        if hole
    }
    gaps = {(name, gap.cycles_from, gap.cycles_to) for name, lane in lanes.items() for gap in report.execution.unkept(lane)}
    if most_events > len(report.execution.events):
        assert holes == dict.fromkeys(gaps, 1)
    else:
        assert {hole for hole in holes if holes[hole] == 1} <= gaps
        assert 2 in holes.values()


def test_waits_beyond_their_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = len(block_of(random_report(3)).columns["wait_lane"])
    monkeypatch.setattr(waits, "MOST_ROWS", 4)
    block = block_of(random_report(3))
    assert len(block.columns["wait_lane"]) == 4
    assert block.json["waits_left_out"] == rows - 4


def test_runs_have_what_the_recording_says_of_them() -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=6), [called], runs_in_detail=2))
    block = block_of(report)
    assert block.json["runs_in_detail"] == sum(run.in_detail for run in report.execution.runs) < 6
    assert block.columns["runs_host_cycle"].tolist() == [run.host_cycle for run in report.execution.runs]
    strings = [*block.json["strings"], ""]
    for name in ("task", "group"):
        assert [strings[index] for index in block.columns[f"runs_{name}"]] == [getattr(run, name) for run in report.execution.runs]


def test_without_events_there_is_an_empty_timeline() -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=2), [called], runs_in_detail=0))
    block = block_of(report)
    assert len(report.execution.events) == 0
    assert block.json["lanes"] == []
    assert block.json["path"] == {"complete": False, "pieces": 0, "cycles": 0, "begin": 0}


def test_a_recording_in_which_nothing_ran_has_no_block() -> None:
    assert execution(Report(Builder(kind="run").tables())) is None


def test_causes_in_a_circle_are_refused() -> None:
    tables = random_report(4).tables
    builder = Builder(kind="run")
    for text in tables.strings:
        builder.string(text)
    for table in ("frames", "programs", "runs", "lanes"):
        builder.extend(table, **{name: tables.column(table, name) for name in tables_of(table)})
    columns = {name: tables.column("events", name) for name in tables_of("events")}
    builder.extend("events", **columns | {"cause": np.roll(np.arange(len(columns["cause"])), 1)})
    for text in ("trees", "machine", "profile"):
        builder.put_text(text, tables.text(text))
    with pytest.raises(RecordingError, match="circle"):
        execution(Report(builder.tables()))
