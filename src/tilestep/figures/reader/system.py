"""What the host did, in wall time: processes, threads, what they traced, lines and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.figures.reader.lazy_sequence import LazySequence
from tilestep.figures.reader.sums import require_sums
from tilestep.messages import shown
from tilestep.recording.schema import TABLES
from tilestep.recording.tables import Tables

NS_PER_US: Final = 1000
MOST_NS: Final = 2**60  # since the recording began
MOST_HEAT_MAP_CELLS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SystemEvent:
    """A tracepoint, or what a thread did.

    Attributes:
        index: row of table `spans`.
        label: what it was.
        channel: of it; ''.
        start_ns: wall time since the recording began.
        duration_ns: 0: an instant.
    """

    index: int
    label: str
    channel: str
    start_ns: int
    duration_ns: int
    _system: System = field(repr=False, compare=False)

    @property
    def timestamp(self) -> float:
        """Its begin in µs."""
        return self.start_ns / NS_PER_US

    @property
    def duration(self) -> float:
        """In µs."""
        return self.duration_ns / NS_PER_US

    def children(self) -> tuple[SystemEvent, ...]:
        """The events directly within it, in order of time."""
        return self._system.events_of("parent", self.index)


@dataclass(frozen=True, kw_only=True)
class Thread:
    """One thread.

    Attributes:
        tid: of the operating system.
        name: of it.
    """

    tid: int
    name: str
    _row: int = field(repr=False)
    _system: System = field(repr=False, compare=False)

    @property
    def all_events(self) -> tuple[SystemEvent, ...]:
        """Also those within others, in order of time."""
        return self._system.events_of("thread", self._row)

    @property
    def events(self) -> tuple[SystemEvent, ...]:
        """Those that are in no other."""
        return tuple(event for event in self.all_events if self._system.is_outermost(event.index))

    @property
    def num_events(self) -> int:
        """How many events it has."""
        return self._system.sums_of_thread(self._row)[0]

    @property
    def busy_ns(self) -> int:
        """How long the events are that are in no other."""
        return self._system.sums_of_thread(self._row)[1]

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels of its events."""
        return tuple(dict.fromkeys(event.channel for event in self.all_events))


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process.

    Attributes:
        pid: of the operating system.
        name: its command.
        threads: of it.
    """

    pid: int
    name: str
    threads: tuple[Thread, ...]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of numbers over time.

    Attributes:
        name: of the line.
        graph: that it is in.
        unit: of its values.
        times_ns: wall time since the recording began.
        values: at these times.
    """

    name: str
    graph: str
    unit: str
    times_ns: NDArray[np.int64] = field(repr=False, compare=False)
    values: NDArray[np.float64] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """How many values fell between which edges, over time.

    Attributes:
        name: of it.
        unit: of its edges.
        edges: between two cells, ascending.
        times_ns: wall time since the recording began, of each row.
        counts: [times, cells]; cell 0 is below the first edge, the last above the last.
    """

    name: str
    unit: str
    edges: tuple[float, ...]
    times_ns: NDArray[np.int64] = field(repr=False, compare=False)
    counts: NDArray[np.int64] = field(repr=False, compare=False)


@final
class System:
    """The part of a recording that is in wall time. Args: tables: of the recording."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._strings = (*tables.strings, "")  # -1 is none

    @cached_property
    def processes(self) -> tuple[Process, ...]:
        """All processes."""
        rows = self._tables.rows("threads")
        owners: list[int] = self._tables.column("threads", "process").tolist()
        tids: list[int] = self._tables.column("threads", "tid").tolist()
        names: list[int] = self._tables.column("threads", "name").tolist()
        threads = [Thread(tid=tids[row], name=self._strings[names[row]], _row=row, _system=self) for row in range(rows)]
        pids: list[int] = self._tables.column("processes", "pid").tolist()
        commands: list[int] = self._tables.column("processes", "name").tolist()
        of_process: list[list[Thread]] = [[] for _ in pids]
        for thread, owner in zip(threads, owners, strict=True):
            if owner >= 0:
                of_process[owner].append(thread)
        return tuple(Process(pid=pid, name=self._strings[commands[row]], threads=tuple(of_process[row])) for row, pid in enumerate(pids))

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of all channels."""
        return tuple(self._texts("channels", "name"))

    @property
    def events(self) -> Sequence[SystemEvent]:
        """Of all threads, in the order in which they were recorded."""
        return LazySequence(self._tables.rows("spans"), self._event)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """All lines of numbers."""
        times, values = self._times("points", "time_ns"), self._tables.column("points", "value")
        words = [self._texts("series", column) for column in ("name", "graph", "unit")]
        return tuple(
            Series(name=name, graph=graph, unit=unit, times_ns=times[rows], values=values[rows])
            for rows, name, graph, unit in zip(self._grouped("points", "series"), *words, strict=True)
        )

    @cached_property
    def heat_maps(self) -> tuple[HeatMap, ...]:
        """All heat maps. Raises: RecordingError if a cell is none of its heat map's, or there are too many."""
        words = [self._texts("heat_maps", column) for column in ("name", "unit")]
        rows = (self._grouped(table, "heat_map") for table in ("edges", "heat"))
        return tuple(self._heat_map(*each) for each in zip(*words, *rows, strict=True))

    def events_of(self, column: str, row: int) -> tuple[SystemEvent, ...]:
        """The events with a row number in column `thread` or `parent`, in order of time."""
        order, values = self._orders[column]
        begin, end = np.searchsorted(values, (row, row + 1))
        return tuple(self._event(index) for index in order[begin:end].tolist())

    def sums_of_thread(self, row: int) -> tuple[int, int]:
        """(number of events, time of the outermost in ns) of a row of table `threads`."""
        order, values = self._orders["thread"]
        begin, end = np.searchsorted(values, (row, row + 1))
        rows = order[begin:end]
        outermost = rows[self._tables.column("spans", "parent")[rows] < 0]
        return len(rows), int(self._tables.column("spans", "duration_ns")[outermost].sum(dtype=np.int64))

    def is_outermost(self, index: int) -> bool:
        """Whether an event is in no other."""
        return int(self._tables.column("spans", "parent")[index]) < 0

    @cached_property
    def _orders(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        parents, starts = self._tables.column("spans", "parent"), self._tables.column("spans", "start_ns")
        for column in ("start_ns", "duration_ns"):
            self._times("spans", column)
        if np.any(parents >= np.arange(len(parents))):
            row = int(np.argmax(parents >= np.arange(len(parents))))
            raise RecordingError(f"column 'spans/parent' has {int(parents[row]):,} in row {row:,}: a span comes behind the one around it")
        found: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for name in ("thread", "parent"):
            values = self._tables.column("spans", name).astype(np.int64)  # as numbers are, so that no search has to widen them all
            order = np.lexsort((starts, values))
            found[name] = (order, values[order])
        return found

    def _times(self, table: str, column: str) -> NDArray[np.int64]:
        """A column of nanoseconds. Raises: RecordingError if one is negative, or nobody lives as long."""
        values = self._tables.column(table, column)
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= MOST_NS:
            raise RecordingError(f"column '{table}/{column}' has {int(values.min()):,} to {int(values.max()):,} ns: it must be 0 to 2**60")
        return values

    def _event(self, row: int) -> SystemEvent:
        spans = self._tables

        def number(column: str) -> int:
            return int(spans.column("spans", column)[row])

        channel = number("channel")
        return SystemEvent(
            index=row,
            label=self._strings[number("label")],
            channel="" if channel < 0 else self._strings[int(spans.column("channels", "name")[channel])],
            start_ns=number("start_ns"),
            duration_ns=number("duration_ns"),
            _system=self,
        )

    def _grouped(self, table: str, column: str) -> list[NDArray[np.int64]]:
        """For each row of the table that a column numbers, the rows with its number, in order."""
        numbers, count = self._tables.column(table, column), self._tables.rows(TABLES[table][column].table)
        order = np.argsort(numbers, kind="stable")
        return np.split(order, np.searchsorted(numbers[order], np.arange(count + 1)))[1:-1]

    def _heat_map(self, name: str, unit: str, of_edges: NDArray[np.int64], chosen: NDArray[np.int64]) -> HeatMap:
        edges: list[float] = self._tables.column("edges", "edge")[of_edges].tolist()
        times = self._times("heat", "time_ns")[chosen]
        cells, counts = (self._tables.column("heat", column)[chosen] for column in ("cell", "times"))
        moments, rows = np.unique(times, return_inverse=True)
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) <= len(edges):
            raise RecordingError(
                f"heat map {shown(name)} has cells {int(cells.min())} to {int(cells.max())}: it has {len(edges) + 1} cells"
            )
        if len(moments) * (len(edges) + 1) > MOST_HEAT_MAP_CELLS:
            raise RecordingError(
                f"heat map {shown(name)} has {len(moments):,} times of {len(edges) + 1:,} cells: at most {MOST_HEAT_MAP_CELLS:,} are read"
            )
        require_sums(counts, f"counts of heat map {shown(name)}")
        table = np.zeros((len(moments), len(edges) + 1), np.int64)
        np.add.at(table, (rows, cells), counts)
        return HeatMap(name=name, unit=unit, edges=tuple(edges), times_ns=moments, counts=table)

    def _texts(self, table: str, column: str) -> list[str]:
        rows: list[int] = self._tables.column(table, column).tolist()
        return [self._strings[row] for row in rows]
