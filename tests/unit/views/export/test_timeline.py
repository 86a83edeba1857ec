"""Traces for Perfetto and Chrome: every slice, flow and counter, read back by the tools' own formats."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import FRAMES, everything, liveness, recorded, report_of, run_of, step, two_stages
from tests.unit.figures.reader.test_system import read, traced
from tests.unit.sim.toy import program
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.views.export.chrome import chrome_trace
from tilestep.views.export.timeline import Clock, timeline


def chrome(report: Report, *, clock: Clock = "emulated", source: bool = True) -> list[dict[str, Any]]:
    """The events of a trace in Chrome's form."""
    return json.loads(chrome_trace(timeline(report, clock=clock, source=source)))["traceEvents"]


def whole() -> Report:
    """A run on two IPUs of everything that a program can have."""
    called, counts = everything()
    return report_of(called, runs=2, counts=counts)


def test_slices_lie_whole_in_the_slice_around_them() -> None:
    tracks = [track for clock in ("emulated",) for track in timeline(whole(), clock=clock, source=True).groups[0].tracks]
    for track in (*tracks, *timeline(read(traced()), clock="wall", source=True).groups[0].tracks):
        ends: list[int] = []
        for each in track.slices:
            while ends and ends[-1] <= each.begin_ns:
                ends.pop()
            assert each.begin_ns <= each.end_ns <= min(ends, default=2**62)
            ends.append(each.end_ns)


def test_transfers_that_share_a_link_are_on_rows_of_their_own() -> None:
    tracks = timeline(whole(), clock="emulated", source=True).groups[0].tracks
    names = [track.name for track in tracks]
    assert names[:3] == ["host", "IPU 0", "IPU 1"]
    assert "host link from IPU-Machine 0 (2)" in names
    assert [track.number for track in tracks] == list(range(1, len(tracks) + 1))


def test_causes_are_flows_that_begin_once_and_end_once() -> None:
    events = chrome(whole())
    begun = [event["id"] for event in events if event["ph"] == "s"]
    ended = [event["id"] for event in events if event["ph"] == "f"]
    assert begun
    assert sorted(begun) == sorted(ended) == sorted(set(begun))


def test_the_memory_of_a_tile_is_a_counter_of_bytes() -> None:
    report = report_of(two_stages(), detail=liveness())
    peak = report.compilation.main.memory.peak.total_bytes
    assert max(event["args"]["bytes"] for event in chrome(report) if event["ph"] == "C") == peak


def test_steps_name_their_line_and_scope() -> None:
    report = report_of(two_stages())
    (event,) = (event for event in chrome(report) if event["name"] == "compute dot" and event["args"]["step"] == "a")
    assert event["args"] == {
        "cycles": 5 * 7,
        "program": "two_stages",
        "step": "a",
        "family": "toy",
        "executions": 5,
        "scope": "jit(f)/while/body/stage_a/dot",
        "line": "train.py:3",
    }


def test_the_cycles_of_a_trace_are_those_of_the_recording() -> None:
    report = report_of(two_stages(), runs=3)
    spans = [event for event in chrome(report) if event.get("cat") == "compute"]
    assert sum(event["args"]["cycles"] for event in spans) == 3 * (4 + 5 * 17 + 3)
    assert sum(event["dur"] for event in spans) == pytest.approx(3 * (4 + 5 * 17 + 3))  # a cycle of the toy machine takes 1 µs


def test_runs_of_a_pipeline_have_their_task() -> None:
    report = whole()
    runs = [event for event in chrome(report) if event.get("cat") == "run"]
    assert len(runs) == 2 * 2
    assert all("stage" not in event["args"] for event in runs)


def test_wall_time_is_a_trace_of_its_own() -> None:
    found = chrome(read(traced()), clock="wall")
    assert {event["args"]["name"] for event in found if event["name"] == "process_name"} == {
        "wall time: python train.py",
        "wall time: series",
    }
    assert [event["name"] for event in found if event["ph"] == "X"] == ["Epoch #1", "step", "step", "fill"]
    assert [event["name"] for event in found if event["ph"] == "i"] == ["Loss="]
    assert [event["args"] for event in found if event["ph"] == "C"] == [{"nats": 2.5}, {"nats": 1.5}]


def test_emulated_time_of_a_trace_of_the_host_is_a_named_error() -> None:
    with pytest.raises(RecordingError, match="has no execution"):
        timeline(read(traced()), clock="emulated", source=True)


def test_hostile_names_stay_text() -> None:
    name = '</script>"\x1b[2J\udcff\u2028'
    called = replace(program(step(name, f"jit(f)/{name}/dot", 3, frame=1), name=name), frames=FRAMES)
    report = Report(recorded(run_of(called), [called]))
    assert any(event["name"] == name for event in chrome(report))
