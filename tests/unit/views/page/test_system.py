"""What view System reads: numbers of the reader, summed by path, and what the main thread's spans say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import report_of, two_stages
from tests.unit.figures.reader.test_system import read, traced
from tilestep.errors import RecordingError
from tilestep.recording.container import Builder
from tilestep.views.page.block import Block
from tilestep.views.page.sections import system as section
from tilestep.views.page.sections.system import CLASSES, system


def block_of(builder: Builder) -> Block:
    found = system(read(builder))
    assert found is not None
    return found


def main_thread(*spans: tuple[str, int, int, int]) -> Builder:
    """A process with spans (label, begin, duration, row of the span around it)."""
    builder = Builder(kind="trace")
    builder.append("processes", pid=1, name="python")
    builder.append("threads", process=0, tid=1, name="MainThread")
    builder.append("channels", name="Framework")
    for label, start, duration, parent in spans:
        builder.append("spans", thread=0, channel=0, label=label, start_ns=start, duration_ns=duration, parent=parent)
    return builder


def test_without_a_trace_there_is_no_block() -> None:
    assert system(report_of(two_stages())) is None


def test_spans_are_those_of_the_reader() -> None:
    report = read(traced())
    found = system(report)
    assert found is not None
    columns, labels = found.columns, found.json["labels"]
    spans = sorted(zip(columns["label"].tolist(), columns["start"].tolist(), columns["duration"].tolist(), strict=True))
    assert sorted((labels[label], start, duration) for label, start, duration in spans) == sorted(
        (event.label, event.start_ns, event.duration_ns) for event in report.system.events
    )
    assert columns["depth"].tolist() == [0, 1, 1, 1, 0]
    assert (found.json["begin"], found.json["end"]) == (0, 10_000)
    assert [thread["name"] for thread in found.json["threads"]] == ["MainThread", "feeder"]


def test_a_main_thread_that_is_named_after_its_command_is_known_by_its_number() -> None:
    builder = Builder(kind="trace")
    builder.append("processes", pid=25, name="python")
    builder.append("threads", process=0, tid=0, name="pool of XLA")
    builder.append("threads", process=0, tid=25, name="train.py")
    builder.append("channels", name="Framework")
    for thread, start in ((0, 0), (0, 20), (1, 40)):
        builder.append("spans", thread=thread, channel=0, label="compile", start_ns=start, duration_ns=10, parent=-1)
    found = block_of(builder).json
    assert found["threads"][found["main"]]["name"] == "train.py"
    assert found["shares"]["compiles"] == 10


def test_spans_that_add_up_to_more_than_whole_numbers_hold_are_an_error() -> None:
    spans = [("Epoch", 0, 2**60, -1), *[("step", 0, 2**60, 0)] * 4]
    assert block_of(main_thread(*spans[:4])).json["summary"][0][3] == 3 * 2**60
    with pytest.raises(RecordingError, match=r"spans of wall time of the recording add up to more than 2\*\*62"):
        block_of(main_thread(*spans))


def test_paths_have_calls_total_and_own_time() -> None:
    found = block_of(traced())
    names, columns = found.json["labels"], found.columns
    rows = {
        names[label]: (calls, total, own)
        for label, calls, total, own in zip(
            *(columns[f"tree_{name}"].tolist() for name in ("label", "calls", "total", "self")), strict=True
        )
    }
    assert rows == {"Epoch #1": (1, 9000, 3500), "step": (2, 5500, 5500), "Loss=": (1, 0, 0), "fill": (1, 500, 500)}
    assert [names[row[1]] for row in found.json["summary"]][:2] == ["Epoch #1", "step"]
    assert found.json["summary"][1][2:] == [2, 5500, 5500, 3000]


def test_what_the_main_thread_did_is_what_the_innermost_telling_span_says() -> None:
    found = block_of(
        main_thread(
            ("Epoch #0", 0, 1000, -1),
            ("PjitFunction(step)", 100, 600, 0),
            ("backend_compile_and_load", 150, 400, 1),
            ("SomePass", 200, 100, 2),
            ("block_until_ready", 800, 150, 0),
            ("end", 2000, 0, -1),
        )
    )
    assert found.json["shares"] == {"compiles": 400, "runs": 200, "waits": 150, "other": 250, "nothing": 1000}
    assert tuple(found.json["shares"]) == CLASSES


def test_a_large_trace_leaves_out_the_shortest_spans_and_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MOST_SPANS", 3)
    monkeypatch.setattr(section, "MOST_PATHS", 3)
    spans = [("outer", 0, 10_000, -1), *((f"inner {index}", index * 100, index + 1, 0) for index in range(10))]
    found = block_of(main_thread(*spans))
    assert (found.json["spans"], found.json["left_out"], found.json["paths_left_out"]) == (11, 8, 8)
    kept = {found.json["labels"][label] for label in found.columns["tree_label"].tolist()}
    assert kept == {"outer", "inner 9", "inner 8"}


def test_lines_and_heat_maps_are_the_readers() -> None:
    report = read(traced())
    found = system(report)
    assert found is not None
    (line,), (heat,) = report.system.series, report.system.heat_maps
    assert found.columns["series_time"].tolist() == line.times_ns.tolist()
    assert found.columns["series_value"].tolist() == line.values.tolist()
    assert found.columns["heat_count"].tolist() == heat.counts.ravel().tolist()
    assert found.json["heat_maps"] == [{"name": "latency", "unit": "ms", "edges": [1.0, 10.0], "times": 2, "all": 2}]


def test_totals_of_labels_are_those_of_all_spans() -> None:
    report = read(traced())
    found = system(report)
    assert found is not None
    wanted: Counter[tuple[str, str]] = Counter()
    for event in report.system.events:
        wanted[event.channel, event.label] += event.duration_ns
    rows: list[list[Any]] = found.json["summary"]
    channels, labels = found.json["channels"], found.json["labels"]
    assert {("" if channel < 0 else channels[channel], labels[label]): total for channel, label, _, total, *_ in rows} == dict(wanted)
