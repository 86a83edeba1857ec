"""Everything that a process was traced to do, as the tables of a recording. Times are nanoseconds from the trace's begin."""

from collections.abc import Iterable
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.recording.storage.container import Builder, Tables
from tilestep.tracing.host_spans import HostSpan
from tilestep.tracing.logs import FetchedSeries

_BYTES_OF_A_CHARACTER: Final = 6  # in JSON, at most
_THREAD, _CHANNEL, _LABEL, _START, _DURATION, _DEPTH = range(6)  # columns of a block of spans

Block = NDArray[np.int64]


@final
class TraceTable:
    """Spans, points and heat of one process, in the order in which they are added; `build` puts them in order.

    Args: begin_ns: the trace's begin, in Unix time.
    """

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self._threads: dict[int | str, int] = {}  # by tid; those without one by name
        self._thread_rows: list[tuple[int, str]] = []
        self._channels: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._spans: list[Block] = []
        self._series: dict[tuple[str, str, str], int] = {}
        self._points: list[tuple[list[int], list[int], list[float]]] = []
        self._heat_maps: dict[tuple[str, str, tuple[float, ...]], int] = {}
        self._heat: list[Block] = []
        self.rows = 0  # spans, points and heat together
        self.label_bytes = 0  # the labels need at most so many in a file

    def add_taken(self, taken: FetchedSeries) -> None:
        """Adds what the process's own tracepoints, series and heat maps recorded."""
        for tid, name, spans in taken.spans:
            thread = self._thread(tid, name)
            self._add_spans(
                [(thread, self._channel(on), self._label(label), start - self._begin_ns, *rest) for label, on, start, *rest in spans]
            )
        if taken.points:
            numbers = [self._number(self._series, (line.name, line.graph, line.unit)) for line, _, _ in taken.points]
            self._add_points(numbers, [t - self._begin_ns for _, t, _ in taken.points], [value for _, _, value in taken.points])
        for heat_map, time_ns, cells, times in taken.heat:
            number = self._number(self._heat_maps, (heat_map.name, heat_map.unit, heat_map.edges))
            self._add_heat([(number, time_ns - self._begin_ns, cell, count) for cell, count in zip(cells, times, strict=True)])

    def add_host(self, spans: Iterable[HostSpan]) -> int:
        """Adds what JAX's profiler recorded. Returns: how many spans."""
        before = self.rows
        rows: list[tuple[int, ...]] = []
        for span in spans:
            thread = self._thread(span.tid, span.thread)
            rows.append((thread, self._channel(span.channel), self._label(span.label), span.start_ns - self._begin_ns, span.duration_ns, 0))
        self._add_spans(rows)
        return self.rows - before

    def add_tables(self, piece: Tables) -> None:
        """Adds an earlier piece of the same trace."""

        def column(table: str, name: str) -> Block:
            return piece.column(table, name).astype(np.int64)

        def texts(table: str, name: str) -> list[str]:
            return [piece.strings[int(number)] for number in piece.column(table, name)]

        threads = [self._thread(int(tid), name) for tid, name in zip(piece.column("threads", "tid"), texts("threads", "name"), strict=True)]
        channels = [self._channel(name) for name in texts("channels", "name")]
        used, labels = np.unique(column("spans", "label"), return_inverse=True)
        label_numbers = [self._label(piece.strings[int(number)]) for number in used]
        spans = np.zeros((piece.rows("spans"), 6), np.int64)
        if len(spans):
            spans[:, _THREAD] = np.array(threads)[column("spans", "thread")]
            spans[:, _CHANNEL] = np.array(channels)[column("spans", "channel")]
            spans[:, _LABEL] = np.array(label_numbers)[labels]
            spans[:, _START], spans[:, _DURATION] = column("spans", "start_ns"), column("spans", "duration_ns")
            self._spans.append(spans)
            self.rows += len(spans)
        keys = zip(texts("series", "name"), texts("series", "graph"), texts("series", "unit"), strict=True)
        numbers = [self._number(self._series, key) for key in keys]
        points = [numbers[number] for number in piece.column("points", "series")]
        self._add_points(points, piece.column("points", "time_ns").tolist(), piece.column("points", "value").tolist())
        self._add_heat_of(piece, texts("heat_maps", "name"), texts("heat_maps", "unit"))

    def _add_heat_of(self, piece: Tables, names: list[str], units: list[str]) -> None:
        owners, edges = piece.column("edges", "heat_map"), piece.column("edges", "edge")
        numbers = [
            self._number(self._heat_maps, (name, unit, tuple(edges[owners == row].tolist())))
            for row, (name, unit) in enumerate(zip(names, units, strict=True))
        ]
        owner = [numbers[row] for row in piece.column("heat", "heat_map")]
        rest = [piece.column("heat", name).tolist() for name in ("time_ns", "cell", "times")]
        self._add_heat(list(zip(owner, *rest, strict=True)))

    def build(self, builder: Builder, *, pid: int, command: str) -> None:
        """Adds the tables to a recording: spans by thread and then by time, each behind the span around it."""
        process = builder.append("processes", pid=pid, name=command)
        for tid, name in self._thread_rows:
            builder.append("threads", process=process, tid=tid, name=name)
        for name in self._channels:
            builder.append("channels", name=name)
        if self._spans:
            self._build_spans(builder)
        for name, graph, unit in self._series:
            builder.append("series", name=name, graph=graph, unit=unit)
        if self._points:
            numbers, times, values = (np.concatenate([np.array(part[column]) for part in self._points]) for column in range(3))
            order = np.argsort(times, kind="stable")
            builder.extend("points", series=numbers[order], time_ns=times[order], value=values[order])
        for row, (name, unit, edges) in enumerate(self._heat_maps):
            builder.append("heat_maps", name=name, unit=unit)
            builder.extend("edges", heat_map=np.full(len(edges), row), edge=np.array(edges))
        if self._heat:
            heat = np.concatenate(self._heat)
            heat = heat[np.argsort(heat[:, 1], kind="stable")]
            builder.extend("heat", heat_map=heat[:, 0], time_ns=heat[:, 1], cell=heat[:, 2], times=heat[:, 3])

    def _build_spans(self, builder: Builder) -> None:
        spans = np.concatenate(self._spans)
        end = spans[:, _START] + spans[:, _DURATION]
        spans = spans[np.lexsort((spans[:, _DEPTH], -end, spans[:, _START], spans[:, _THREAD]))]
        labels = np.array([builder.string(label) for label in self._labels])
        builder.extend(
            "spans",
            thread=spans[:, _THREAD],
            channel=spans[:, _CHANNEL],
            label=labels[spans[:, _LABEL]],
            start_ns=spans[:, _START],
            duration_ns=spans[:, _DURATION],
            parent=parents(spans[:, _THREAD], spans[:, _START], spans[:, _DURATION]),
        )

    # ------------------------------------------------------------------------------------------------------- rows

    def _add_spans(self, rows: list[tuple[int, ...]]) -> None:
        if rows:
            self._spans.append(np.array(rows, np.int64))
            self.rows += len(rows)

    def _add_points(self, numbers: list[int], times: list[int], values: list[float]) -> None:
        if numbers:
            self._points.append((numbers, times, values))
            self.rows += len(numbers)

    def _add_heat(self, rows: list[tuple[int, ...]]) -> None:
        if rows:
            self._heat.append(np.array(rows, np.int64))
            self.rows += len(rows)

    def _thread(self, tid: int, name: str) -> int:
        key = tid or name
        if key not in self._threads:
            self._threads[key] = len(self._thread_rows)
            self._thread_rows.append((tid, name))
        return self._threads[key]

    def _channel(self, name: str) -> int:
        return self._channels.setdefault(name, len(self._channels))

    def _label(self, label: str) -> int:
        if label not in self._labels:
            self._labels[label] = len(self._labels)
            self.label_bytes += _BYTES_OF_A_CHARACTER * len(label)
        return self._labels[label]

    def _number(self, rows: dict[Any, int], key: Any) -> int:
        return rows.setdefault(key, len(rows))


_NONE: Final = -1


def parents(threads: Block, starts: Block, durations: Block) -> NDArray[np.int32]:
    """For each span the row of the innermost span around it, of the same thread; -1: none.

    Args: spans by thread, then by start, the longer first of those that start together.
    """
    found = np.full(len(starts), _NONE, np.int32)
    stack: list[tuple[int, int]] = []  # (row, end) of spans that may be around the next one
    thread = _NONE
    rows = zip(threads.tolist(), starts.tolist(), (starts + durations).tolist(), strict=True)
    for row, (owner, _, end) in enumerate(rows):
        if owner != thread:
            thread, stack = owner, []
        while stack and stack[-1][1] < end:
            stack.pop()
        if stack:
            found[row] = stack[-1][0]
        stack.append((row, end))
    return found
