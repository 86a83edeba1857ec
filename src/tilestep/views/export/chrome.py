"""A timeline as JSON of Chrome's trace viewer, which many tools read. Times are in µs."""

import json
import math
from collections.abc import Iterator
from typing import Any

from tilestep.views.export.timeline import CounterTrack, ExportTimeline, Slice, TrackGroup

_NS_PER_US = 1000


def chrome_trace(timeline: ExportTimeline) -> bytes:
    """The JSON of a timeline."""
    events = [event for group in timeline.groups for event in _group(group)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"clock": f"{timeline.clock} time", "made by": "tilestep"},
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _group(group: TrackGroup) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": group.number, "tid": 0, "name": "process_name", "args": {"name": group.name}}
    for track in group.tracks:
        place = {"pid": group.number, "tid": track.number}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": track.number}}
        for each in track.slices:
            yield from _slice(each, place)
    for counter in group.counters:
        yield from _counter(counter, group.number)


def _slice(each: Slice, place: dict[str, int]) -> Iterator[dict[str, Any]]:
    begin = each.begin_ns / _NS_PER_US
    length = each.end_ns - each.begin_ns
    shared: dict[str, Any] = {"ph": "X", "dur": length / _NS_PER_US} if length > 0 else {"ph": "i", "s": "t"}
    yield {**shared, **place, "name": each.name, "cat": each.category, "ts": begin, "args": dict(each.shown_arguments)}
    for flow in each.flows_in:
        yield {"ph": "f", "bp": "e", **place, "id": flow, "name": "cause", "cat": "cause", "ts": begin}
    for flow in each.flows_out:
        yield {"ph": "s", **place, "id": flow, "name": "cause", "cat": "cause", "ts": begin}


def _counter(counter: CounterTrack, number: int) -> Iterator[dict[str, Any]]:
    for time, value in counter.points:
        if not math.isfinite(value):  # JSON has no such number: the line has a gap
            continue
        yield {"ph": "C", "pid": number, "tid": 0, "name": counter.name, "ts": time / _NS_PER_US, "args": {counter.unit or "value": value}}
