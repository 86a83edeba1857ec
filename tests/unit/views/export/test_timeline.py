"""Traces for Perfetto and Chrome: every slice, flow and counter, read back by the tools' own formats."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import FRAMES, everything, liveness, recorded, report_of, run_of, step, two_stages
from tests.unit.figures.reader.test_system import read, traced
from tests.unit.sim.toy import program
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.views.export.chrome import chrome_trace
from tilestep.views.export.perfetto import perfetto_trace
from tilestep.views.export.timeline import Clock, timeline


def packets(report: Report, *, clock: Clock = "emulated", source: bool = True) -> list[Any]:
    """The packets of a trace, parsed by Perfetto's own message."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(perfetto_trace(timeline(report, clock=clock, source=source)))
    return list(trace.packet)


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


def test_perfetto_reads_every_track_and_every_slice_ends() -> None:
    found = packets(whole())
    names = {packet.track_descriptor.name for packet in found if packet.HasField("track_descriptor")}
    assert {"host", "IPU 0", "IPU 1"} <= names
    processes = [packet.track_descriptor.process.process_name for packet in found if packet.track_descriptor.HasField("process")]
    assert processes == ["emulated time: toy"]
    depth: Counter[int] = Counter()
    clock: dict[int, int] = {}
    for packet in found:
        if packet.HasField("track_event") and packet.track_event.type in (1, 2):
            track = packet.track_event.track_uuid
            depth[track] += 1 if packet.track_event.type == 1 else -1
            assert depth[track] >= 0
            assert packet.timestamp >= clock.get(track, 0)
            clock[track] = packet.timestamp
    assert set(depth.values()) == {0}


def test_perfetto_knows_every_number_that_stands_for_a_text() -> None:
    known: dict[str, set[int]] = {"names": set(), "categories": set(), "keys": set()}
    for packet in packets(whole()):
        known["names"] |= {entry.iid for entry in packet.interned_data.event_names}
        known["categories"] |= {entry.iid for entry in packet.interned_data.event_categories}
        known["keys"] |= {entry.iid for entry in packet.interned_data.debug_annotation_names}
        event = packet.track_event
        if packet.HasField("track_event") and event.type == 1:
            assert event.name_iid in known["names"]
            assert set(event.category_iids) <= known["categories"]
            assert {annotation.name_iid for annotation in event.debug_annotations} <= known["keys"]


def test_causes_are_flows_that_begin_once_and_end_once() -> None:
    report = whole()
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for packet in packets(report):
        begun.update(packet.track_event.flow_ids)
        ended.update(packet.track_event.terminating_flow_ids)
    assert begun
    assert begun == ended
    assert set(begun.values()) == {1}
    events = chrome(report)
    assert {event["id"] for event in events if event["ph"] == "s"} == {event["id"] for event in events if event["ph"] == "f"} == set(begun)


def test_the_memory_of_a_tile_is_a_counter_of_bytes() -> None:
    report = report_of(two_stages(), detail=liveness())
    peak = report.compilation.main.memory.peak.total_bytes
    values = [packet.track_event.counter_value for packet in packets(report) if packet.track_event.type == 4]
    assert max(values) == peak
    assert max(event["args"]["bytes"] for event in chrome(report) if event["ph"] == "C") == peak
    units = [packet.track_descriptor.counter.unit for packet in packets(report) if packet.track_descriptor.HasField("counter")]
    assert units == [3]  # bytes


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
    sources = [source for packet in packets(report) for source in packet.interned_data.source_locations]
    assert [(source.file_name, source.function_name, source.line_number) for source in sources] == [("train.py", "loss", 3)]


def test_without_source_no_line_and_no_path_is_written() -> None:
    for trace in (perfetto_trace, chrome_trace):
        content = trace(timeline(report_of(two_stages()), clock="emulated", source=False))
        assert b"train.py" not in content
        assert b"/home" not in content
        assert b"train.py" in trace(timeline(report_of(two_stages()), clock="emulated", source=True))
        content = trace(timeline(read(traced()), clock="wall", source=False))
        assert b"train.py" not in content


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
    doubles = [packet.track_event.double_counter_value for packet in packets(read(traced()), clock="wall") if packet.track_event.type == 4]
    assert doubles == [2.5, 1.5]


def test_emulated_time_of_a_trace_of_the_host_is_a_named_error() -> None:
    with pytest.raises(RecordingError, match="has no execution"):
        timeline(read(traced()), clock="emulated", source=True)


def test_hostile_names_stay_text() -> None:
    name = '</script>"\x1b[2J\udcff\u2028'
    called = replace(program(step(name, f"jit(f)/{name}/dot", 3, frame=1), name=name), frames=FRAMES)
    report = Report(recorded(run_of(called), [called]))
    assert any(event["name"] == name for event in chrome(report))
    assert any("</script>" in packet.interned_data.event_names[0].name for packet in packets(report) if packet.interned_data.event_names)
