"""The events of a simulation, in dispatch order, and what decided when each began."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Final, Literal, NamedTuple, cast, final, overload

import numpy as np
from numpy.typing import NDArray

EventKind = Literal[
    "load",  # a program's code comes over the host link
    "save",  # values of an evicted program go to the host
    "stream-in",  # arguments come over the host link
    "compute",
    "exchange",  # between tiles
    "sync",
    "collective",  # between IPUs
    "host-call",  # the program stops for the host
    "stream-out",  # results go over the host link
    "read",  # a value in SRAM is downloaded because the host reads it
    "io-in",  # arguments come to the I/O tiles, beside the other tiles' work
    "io-out",  # results leave from the I/O tiles, beside the other tiles' work
]
KINDS: Final[tuple[EventKind, ...]] = (
    "load",
    "save",
    "stream-in",
    "compute",
    "exchange",
    "sync",
    "collective",
    "host-call",
    "stream-out",
    "read",
    "io-in",
    "io-out",
)
"""All kinds of events, in the order of reports."""
BESIDE: Final[tuple[EventKind, ...]] = ("io-in", "io-out")
"""Kinds of events of the I/O tiles, beside the other tiles' work: they are no part of their IPU's time."""
DISPATCH: Final = len(KINDS)  # further kinds, of lanes that are no IPU's
WAIT: Final = DISPATCH + 1
TRANSFER: Final = DISPATCH + 2
MAX_EVENTS: Final = 500_000  # a trace keeps the first of them; totals count all
MAX_RUNS: Final = 500_000  # dispatches; further ones likewise
MAX_LATEST: Final = 100_000  # behind the first, the latest events are kept, at least half as many
NO_EVENT: Final = -1
_COLUMNS: Final = 7  # lane, kind, start, end, run, key of the program, cause
_CHUNK: Final = 4096  # events that wait as tuples
_MOST_ENDS: Final = 100_000  # cycles at which something ended


LaneKind = Literal["host", "ipu", "io", "to-ipus", "to-host", "memory", "gateway", "link"]


class Lane(NamedTuple):
    """Something that does one thing after the other: an IPU, its I/O tiles, the host, a link."""

    kind: LaneKind
    number: int = 0  # an IPU, or an IPU-Machine
    target: int = -1  # the neighbour of a link


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One IPU does one kind of thing from `start_cycle` to `end_cycle`.

    All time of one kind in one run is one event: `compute` is the sum over its supersteps. I/O tiles may be interrupted, and then they have
    several.

    Attributes:
        ipu: index of the IPU.
        start_cycle: first cycle.
        end_cycle: the cycle behind the last.
        kind: one of `KINDS`.
        program: name of the program.
        key: number of the program.
        run: number of the dispatch, from 0; -1: of none.
    """

    ipu: int
    start_cycle: int
    end_cycle: int
    kind: EventKind
    program: str
    key: int = 0
    run: int = -1


@final
class EventTimeline(Sequence[Event]):
    """Events of IPUs, which become objects when somebody looks at them. It equals any sequence of the same events."""

    def __init__(self, kept: array[int], lanes: Sequence[Lane], names: Mapping[int, str]) -> None:
        """Args: kept: the columns of each event. lanes: of the recorder. names: of programs, by key."""
        self._kept, self._lanes, self._names = kept, lanes, names

    @cached_property
    def _events(self) -> tuple[Event, ...]:
        kept: list[int] = self._kept.tolist()
        names, ipus = self._names, [lane.number for lane in self._lanes]
        rows = (kept[position : position + _COLUMNS] for position in range(0, len(kept), _COLUMNS))
        return tuple(
            Event(ipu=ipus[lane], start_cycle=start_cycle, end_cycle=end_cycle, kind=KINDS[kind], program=names[key], key=key, run=run)
            for lane, kind, start_cycle, end_cycle, run, key, _ in rows
            if kind < DISPATCH
        )

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return self._events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __eq__(self, other: object) -> bool:
        return self._events == tuple(cast("Sequence[object]", other)) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._events)

    def __repr__(self) -> str:
        return repr(self._events)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Events of IPUs in the order in which they were worked out. Those of one IPU's tiles, or of its I/O tiles, are in order of time."""

    events: EventTimeline  # at most `MAX_EVENTS`
    dropped: int  # further events, which were counted but not kept


class RunRow(NamedTuple):
    """One dispatch, as a recording keeps it."""

    number: int
    key: int
    host_cycle: int  # at which the host has dispatched it
    group: str
    entry: int
    task: PipelineTask | None


class PipelineTask(NamedTuple):
    """The task of a pipeline that a dispatch belongs to; or the name of the dispatch."""

    stage: int  # -1: of no pipeline
    kind: str  # or the name
    microbatch: int


class Trip(NamedTuple):
    """How often one run took one data-dependent part, on one IPU."""

    run: int
    position: int
    site: int
    arm: int
    times: int


class Rows(NamedTuple):
    """Events as columns: int64 arrays of equal length."""

    number: NDArray[np.int64]  # `cause` holds such numbers
    lane: NDArray[np.int64]
    kind: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    run: NDArray[np.int64]
    key: NDArray[np.int64]
    cause: NDArray[np.int64]


@final
class Recorder:
    """Keeps the events of a running simulation. Positions stay valid when events are cleared.

    Attributes:
        enabled: whether events are kept.
        links: whether transfers over host links are kept beside the events of their IPUs.
        lanes: every lane so far; events name them by index. The first are the IPUs.
        runs: dispatches so far.
        trips: of the runs' data-dependent parts.
        host_event: the latest event of the host.
    """

    def __init__(self, *, enabled: bool, num_ipus: int) -> None:
        self.enabled = enabled
        self.links = False
        self.lanes: list[Lane] = [Lane("ipu", ipu) for ipu in range(num_ipus)]
        self.runs: deque[RunRow] = deque()
        self.trips: deque[Trip] = deque()
        self.host_event = NO_EVENT
        self._num_ipus = num_ipus
        self._lane_numbers = {lane: number for number, lane in enumerate(self.lanes)}
        self._host = self.lane(Lane("host"))
        self._dropped = 0
        self._begin = 0  # number of the first event that is kept
        self._count = 0  # events since the last `clear`
        self._first = array("q")  # the first MAX_EVENTS, column by column of each event
        self._latest = array("q")  # the latest of the others
        self._waiting: list[tuple[int, int, int, int, int, int, int]] = []
        self._ended: dict[int, int] = {}  # cycle -> the latest event that ended then

    @property
    def keeps(self) -> bool:
        """Whether events are kept, or are to be."""
        return self.enabled or self._count > 0

    @property
    def position(self) -> int:
        """The number that the next event will have."""
        return self._begin + self._count

    @property
    def dropped(self) -> int:
        """Events of IPUs behind the first `MAX_EVENTS` events."""
        self._store()
        return self._dropped

    def lane(self, lane: Lane) -> int:
        """The number of a lane."""
        number = self._lane_numbers.get(lane)
        if number is None:
            number = self._lane_numbers[lane] = len(self.lanes)
            self.lanes.append(lane)
        return number

    def io_lane(self, ipu: int) -> int:
        """The number of the lane of an IPU's I/O tiles."""
        return self.lane(Lane("io", ipu))

    def add(self, lane: int, start: int, end: int, kind: int, key: int, run: int, cause: int, *, decides: bool = True) -> int:
        """Keeps an event.

        Args: cause: the event whose end decided the start; of a wait, the event whose end decided the end. decides: whether the event's end
            may decide when another begins; a transfer within a longer event does not.
        Returns: the event's number.
        """
        number = self._begin + self._count
        self._waiting.append((lane, kind, start, end, run, key, cause))
        self._count += 1
        if decides:
            self._ended[end] = number
        if len(self._waiting) >= _CHUNK:
            self._store()
        return number

    def add_run(self, run: RunRow) -> None:
        """Keeps a dispatch. Beyond `MAX_RUNS` those in the middle are dropped."""
        runs = self.runs
        runs.append(run)
        if len(runs) > MAX_RUNS + MAX_LATEST:
            self.runs = deque(islice(runs, MAX_RUNS))
            self.runs.extend(islice(runs, len(runs) - MAX_LATEST // 2, None))
        if len(self.trips) > MAX_RUNS + MAX_LATEST:
            kept = {row.number for row in self.runs}
            self.trips = deque(trip for trip in self.trips if trip.run in kept)

    def add_of_host(self, start: int, end: int, kind: int, key: int, run: int, cause: int) -> None:
        """Keeps an event of the host."""
        self.host_event = self.add(self._host, start, end, kind, key, run, cause)

    def ended_at(self, cycle: int) -> int:
        """The latest event that ended in this cycle, or NO_EVENT."""
        return self._ended.get(cycle, NO_EVENT)

    def rows(self, start: int, end: int) -> Rows:
        """Events from one position up to another, of all lanes, without those that were dropped."""
        self._store()
        first = np.frombuffer(self._first.tobytes(), np.int64).reshape(-1, _COLUMNS)
        latest = np.frombuffer(self._latest.tobytes(), np.int64).reshape(-1, _COLUMNS)
        numbers = np.concatenate(
            (
                np.arange(self._begin, self._begin + len(first)),
                np.arange(self.position - len(latest), self.position),
            )
        )
        table = np.concatenate((first, latest))
        kept = (numbers >= start) & (numbers < end)
        lane, kind, begin, finish, run, key, cause = table[kept].T
        return Rows(numbers[kept], lane, kind, begin, finish, run, key, cause)

    def between(self, start: int, end: int, names: Mapping[int, str]) -> EventTimeline:
        """Events of IPUs from one position up to another: of the first `MAX_EVENTS` that were kept. Args: names: of programs, by key."""
        self._store()
        kept = self._first[max(start - self._begin, 0) * _COLUMNS : max(end - self._begin, 0) * _COLUMNS]
        return EventTimeline(kept, self.lanes, names)

    def clear(self) -> None:
        """Drops all events, runs and trips."""
        self._begin += self._count
        self._count = 0
        self._first, self._latest = array("q"), array("q")
        self._waiting.clear()
        self.runs.clear()
        self.trips.clear()

    def _store(self) -> None:
        """Moves the events that wait as tuples to the columns, and drops those in the middle if there are too many."""
        waiting, self._waiting = self._waiting, []
        room = MAX_EVENTS - len(self._first) // _COLUMNS
        self._first.extend(chain.from_iterable(waiting[:room]))
        if len(waiting) > room:
            self._latest.extend(chain.from_iterable(waiting[room:]))
            self._dropped += sum(kind < DISPATCH for _, kind, *_ in waiting[room:])
            surplus = len(self._latest) // _COLUMNS - MAX_LATEST
            if surplus > 0:
                surplus = max(surplus, MAX_LATEST // 2)
                del self._latest[: surplus * _COLUMNS]
        if len(self._ended) > _MOST_ENDS:
            for cycle in list(self._ended)[: _MOST_ENDS // 2]:
                del self._ended[cycle]
