"""The tables of a trace: rows in order, each span behind the one around it, and pieces joined to what one piece would have been."""

from pathlib import Path

import numpy as np
import pytest

from tilestep.recording.storage.container import Builder, Tables, parse_recording, recording_bytes
from tilestep.tracing.host_spans import HostSpan
from tilestep.tracing.logs import FetchedSeries, Span
from tilestep.tracing.pieces import TracePieces
from tilestep.tracing.series import HeatMap, Series
from tilestep.tracing.table import TraceTable, parents

BEGIN = 1_795_000_000 * 10**9
LOSS, NORMS = Series("Loss", "Training", "nats"), HeatMap("Norms", (0.0, 1.0), "1")


def span(label: str, start: int, duration: int, depth: int = 0, channel: str = "User") -> Span:
    return label, channel, BEGIN + start, duration, depth


FIRST = FetchedSeries(
    spans=((11, "main", [span("b", 10, 5, 1), span("c", 20, 0, 1), span("a", 0, 30)]), (12, "loader", [span("a", 3, 4, 0, "Mine")])),
    points=[(LOSS, BEGIN + 8, 0.5)],
    heat=[(NORMS, BEGIN + 9, [0, 2], [3, 1])],
)
SECOND = FetchedSeries(
    spans=((11, "main", [span("d", 50, 10), span("outer", 0, 90)]),),  # the latter is around most of what is in the first piece
    points=[(LOSS, BEGIN + 40, np.inf), (Series("Loss", "Test", ""), BEGIN + 41, 1.0)],
    heat=[(NORMS, BEGIN + 42, [1], [7]), (HeatMap("Norms", (2.0,), "1"), BEGIN + 43, [1], [1])],
)


def built(table: TraceTable) -> Tables:
    builder = Builder(kind="trace")
    table.build(builder, pid=7, command="train.py")
    return parse_recording(recording_bytes(builder.tables(), quickly=True))


def texts(tables: Tables, table: str, column: str) -> list[str]:
    return [tables.strings[int(number)] for number in tables.column(table, column)]


def spans(tables: Tables) -> list[tuple[str, str, str, int, int, str | None]]:
    """(thread, channel, label, start, duration, label of the parent), in the order of rows."""
    threads, channels, labels = texts(tables, "threads", "name"), texts(tables, "channels", "name"), texts(tables, "spans", "label")
    numbers = (tables.column("spans", name).tolist() for name in ("thread", "channel", "start_ns", "duration_ns", "parent"))
    return [
        (threads[t], channels[c], label, start, duration, None if parent < 0 else labels[parent])
        for label, t, c, start, duration, parent in zip(labels, *numbers, strict=True)
    ]


def test_spans_are_in_order_of_threads_and_time_with_the_span_around_them() -> None:
    table = TraceTable(BEGIN)
    table.add_taken(FIRST)
    assert table.rows == 4 + 1 + 2
    tables = built(table)
    assert spans(tables) == [
        ("main", "User", "a", 0, 30, None),
        ("main", "User", "b", 10, 5, "a"),
        ("main", "User", "c", 20, 0, "a"),
        ("loader", "Mine", "a", 3, 4, None),
    ]
    assert (tables.column("processes", "pid").tolist(), texts(tables, "processes", "name")) == ([7], ["train.py"])
    assert tables.column("threads", "tid").tolist() == [11, 12]


def test_pieces_are_joined_to_what_one_piece_would_have_been() -> None:
    whole, joined, pieces = TraceTable(BEGIN), TraceTable(BEGIN), [TraceTable(BEGIN), TraceTable(BEGIN)]
    for taken, piece in zip((FIRST, SECOND), pieces, strict=True):
        whole.add_taken(taken)
        piece.add_taken(taken)
        joined.add_tables(built(piece))
    assert joined.rows == whole.rows
    assert recording_bytes(built(joined)) == recording_bytes(built(whole))
    tables = built(joined)
    assert ("main", "User", "d", 50, 10, "outer") in spans(tables)
    assert ("main", "User", "b", 10, 5, "a") in spans(tables)
    names = [texts(tables, "series", name) for name in ("name", "graph", "unit")]
    assert names == [["Loss", "Loss"], ["Training", "Test"], ["nats", ""]]
    assert [tables.column("points", name).tolist() for name in ("series", "time_ns", "value")] == [[0, 0, 1], [8, 40, 41], [0.5, np.inf, 1]]
    assert [tables.column("edges", name).tolist() for name in ("heat_map", "edge")] == [[0, 0, 1], [0, 1, 2]]
    heat = [tables.column("heat", name).tolist() for name in ("heat_map", "time_ns", "cell", "times")]
    assert heat == [[0, 0, 0, 1], [9, 9, 42, 43], [0, 2, 1, 1], [3, 1, 7, 1]]


def test_what_jax_did_in_a_thread_is_inside_of_its_tracepoints() -> None:
    table = TraceTable(BEGIN)
    table.add_taken(FIRST)
    host = [
        HostSpan(11, "python", "Framework", "PjitFunction(f)", BEGIN + 11, 2),
        HostSpan(0, "tf_XLA/1", "Framework", "fusion", BEGIN + 12, 9),
        HostSpan(0, "tf_XLA/1", "Framework", "fusion", BEGIN + 2, 9),
    ]
    assert table.add_host(host) == 3
    found = spans(built(table))
    assert ("main", "Framework", "PjitFunction(f)", 11, 2, "b") in found
    assert [row for row in found if row[0] == "tf_XLA/1"] == [
        ("tf_XLA/1", "Framework", "fusion", 2, 9, None),
        ("tf_XLA/1", "Framework", "fusion", 12, 9, None),
    ]


def test_spans_of_equal_times_keep_their_depth() -> None:
    table = TraceTable(BEGIN)
    table.add_taken(FetchedSeries(spans=((1, "main", [span("inner", 5, 0, 1), span("outer", 5, 0, 0)]),), points=[], heat=[]))
    assert [(label, parent) for _, _, label, _, _, parent in spans(built(table))] == [("outer", None), ("inner", "outer")]


@pytest.mark.parametrize("seed", range(5))
def test_every_span_lies_within_its_parent(seed: int) -> None:
    random = np.random.default_rng(seed)
    threads, starts = np.sort(random.integers(0, 3, 400)), random.integers(0, 500, 400)
    durations = random.integers(0, 200, 400)
    order = np.lexsort((-(starts + durations), starts, threads))
    threads, starts, durations = threads[order], starts[order], durations[order]
    found = parents(threads, starts, durations)
    inner = np.flatnonzero(found >= 0)
    outer = found[inner]
    assert len(inner) > 100
    assert (outer < inner).all()
    assert (threads[outer] == threads[inner]).all()
    assert (starts[outer] <= starts[inner]).all()
    assert ((starts + durations)[outer] >= (starts + durations)[inner]).all()


def test_a_table_without_rows_has_its_process() -> None:
    tables = built(TraceTable(BEGIN))
    assert texts(tables, "processes", "name") == ["train.py"]
    assert not tables.has("spans")


def test_different_labels_count_once_in_bytes() -> None:
    table = TraceTable(BEGIN)
    table.add_taken(FetchedSeries(spans=((1, "main", [span("abc", 1, 1), span("abc", 2, 1), span("d", 3, 1)]),), points=[], heat=[]))
    assert table.label_bytes == 6 * 4


BEGIN_NS = 1_700_000_000_000_000_000


@pytest.fixture
def pieces(tmp_path: Path) -> TracePieces:
    """Two have been written."""
    written = TracePieces(tmp_path, BEGIN_NS)
    for _ in range(2):
        written.write(written.new_table(), [])
    assert sorted(path.name.split(".")[-2] for path in tmp_path.iterdir()) == ["part1", "part2"]
    return written


def test_the_whole_file_takes_the_place_of_its_pieces(pieces: TracePieces, tmp_path: Path) -> None:
    pieces.finish(pieces.new_table(), [], None)
    assert list(tmp_path.iterdir()) == [pieces.path]


def test_a_trace_without_a_file_leaves_no_piece(pieces: TracePieces, tmp_path: Path) -> None:
    pieces.remove()
    assert list(tmp_path.iterdir()) == []
