"""What a process's own tracepoints, series and heat maps have recorded and nobody has fetched yet.

Each thread appends to lists of its own, so that threads don't wait for each other. `append` and slices of a list are atomic in Python.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

ROWS_OF_A_PIECE: Final = 50_000  # a thread that has so many asks for them to be fetched
_MOST_ROWS: Final = 4 * ROWS_OF_A_PIECE  # at which the thread waits for that
_ROWS_PER_HEAT_CALL: Final = 16  # an estimate

Span = tuple[str, str, int, int, int]  # label, channel, begin in nanoseconds of Unix time, duration, how many spans are around it
# A span that has begun: the object that ends it, its begin (0: its channel was off), its annotation in a profile of JAX or None.
Open = tuple[Any, int, Any]


class SeriesDescription:
    """What a series is: its name, the graph that it is in, the unit of its values."""

    __slots__ = ("graph", "name", "unit")

    def __init__(self, name: str, graph: str, unit: str) -> None:
        self.name, self.graph, self.unit = name, graph, unit


class Cells:
    """What a heat map is: its name, the edges between its cells, the unit of edges and values."""

    __slots__ = ("edges", "name", "unit")

    def __init__(self, name: str, edges: tuple[float, ...], unit: str) -> None:
        self.name, self.edges, self.unit = name, edges, unit


@final
class Log:
    """What one thread has recorded.

    Attributes:
        ident: of the thread in Python.
        tid: of the thread in the operating system.
        name: of the thread.
        spans: that have ended.
        stack: of spans that have begun, the innermost last.
        has_ended: whether the thread is gone.
    """

    __slots__ = ("has_ended", "ident", "name", "spans", "stack", "tid")

    def __init__(self) -> None:
        self.ident, self.tid, self.name = threading.get_ident(), threading.get_native_id(), _own_name()
        self.spans: list[Span] = []
        self.stack: list[Open] = []
        self.has_ended = False


@final
class _Keeper:
    """Is gone when its thread is."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def __del__(self) -> None:
        self._log.has_ended = True


@final
class _Local(threading.local):
    """The current thread's log."""

    def __init__(self, logs: list[Log]) -> None:
        self.log = Log()
        self._keeper = _Keeper(self.log)
        logs.append(self.log)


@dataclass(frozen=True, kw_only=True)
class FetchedSeries:
    """What has been fetched.

    Attributes:
        spans: by thread: (tid, name), and its spans.
        points: series, nanoseconds of Unix time, value.
        heat: heat map, nanoseconds of Unix time, cells, how many values fell into each.
    """

    spans: tuple[tuple[int, str, list[Span]], ...]
    points: list[tuple[SeriesDescription, int, float]]
    heat: list[tuple[Cells, int, list[int], list[int]]]

    @property
    def rows(self) -> int:
        """How many rows a file needs for it."""
        return sum(len(spans) for _, _, spans in self.spans) + len(self.points) + sum(len(cells) for _, _, cells, _ in self.heat)


@final
class Logs:
    """The logs of all threads.

    Args: full: called when much waits to be fetched; True: the caller has to wait until it has been.
    Attributes:
        local: its `log` is the current thread's.
        points: of series.
        heat: of heat maps.
        annotation: makes the annotation of a label for a profile of JAX that the program itself makes; None while there is none.
    """

    def __init__(self, full: Callable[[bool], None]) -> None:
        self._logs: list[Log] = []
        self.local = _Local(self._logs)
        self.points: list[tuple[SeriesDescription, int, float]] = []
        self.heat: list[tuple[Cells, int, list[int], list[int]]] = []
        self.annotation: Callable[[str], Any] | None = None
        self._full = full

    def note(self, log: Log, span: Span) -> None:
        """Keeps a span of the current thread."""
        spans = log.spans
        spans.append(span)
        if len(spans) >= ROWS_OF_A_PIECE:
            self._full(len(spans) >= _MOST_ROWS)

    def note_point(self, series: SeriesDescription, value: float) -> None:
        """Keeps a point of a line."""
        self.points.append((series, time.time_ns(), value))
        if len(self.points) >= ROWS_OF_A_PIECE:
            self._full(len(self.points) >= _MOST_ROWS)

    def note_heat(self, heat_map: Cells, cells: list[int], times: list[int]) -> None:
        """Keeps values of a heat map."""
        self.heat.append((heat_map, time.time_ns(), cells, times))
        if len(self.heat) * _ROWS_PER_HEAT_CALL >= ROWS_OF_A_PIECE:
            self._full(len(self.heat) * _ROWS_PER_HEAT_CALL >= _MOST_ROWS)

    @property
    def much_waits(self) -> bool:
        """Whether there is enough for a piece of the file."""
        rows = max((len(log.spans) for log in list(self._logs)), default=0)
        return max(rows, len(self.points), len(self.heat) * _ROWS_PER_HEAT_CALL) >= ROWS_OF_A_PIECE

    def take(self) -> FetchedSeries:
        """Fetches what threads have recorded since the last time."""
        spans: list[tuple[int, str, list[Span]]] = []
        for log in list(self._logs):
            ended = log.has_ended  # before its spans are fetched: an ended thread records no more
            if rows := _fetched(log.spans):
                spans.append((log.tid, log.name, rows))
            if ended:
                self._logs.remove(log)
        return FetchedSeries(spans=tuple(spans), points=_fetched(self.points), heat=_fetched(self.heat))

    def end_open(self, now: int) -> None:
        """Ends the spans that have begun and not ended, for nobody does when the process has ended."""
        for log in list(self._logs):
            for depth, (owner, start, _) in enumerate(list(log.stack)):
                if start:
                    log.spans.append((owner.label, owner.channel.name, start, max(now - start, 0), depth))

    def threads(self) -> dict[int, tuple[int, str]]:
        """(tid, name) of threads by their Python ident: those that have recorded, and those that run now."""
        running = {t.ident: (t.native_id or 0, t.name) for t in threading.enumerate() if t.ident is not None}
        return {log.ident: (log.tid, log.name) for log in list(self._logs)} | running


current: Logs | None = None  # where this process records to; None: it is not traced


def _fetched(rows: list[Any]) -> list[Any]:
    count = len(rows)  # meanwhile its thread may append more
    taken = rows[:count]
    del rows[:count]
    return taken


def _own_name() -> str:
    """The current thread's name. Threads that Python does not know have the operating system's."""
    ident = threading.get_ident()
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.name
    try:
        return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip()
    except OSError:
        return "thread"
