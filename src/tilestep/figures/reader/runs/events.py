"""The events of a recording: what each lane did, and what decided when it began."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.figures.lane_names import lane_name
from tilestep.recording.schema import EVENT_KINDS, LANE_KINDS
from tilestep.recording.tables import Tables


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Something that does one thing after the other.

    Attributes:
        index: row of table `lanes`.
        kind: one of LANE_KINDS: 'host', 'ipu', 'io', 'to-ipus', 'to-host', 'memory', 'gateway', 'link'.
        number: of the IPU or IPU-Machine.
        target: the neighbour of a link; -1 for other lanes.
    """

    index: int
    kind: str
    number: int
    target: int

    @property
    def name(self) -> str:
        """For people: 'IPU 3', 'host link to IPU-Machine 0'."""
        return lane_name(self.kind, self.number, self.target)


@dataclass(frozen=True, kw_only=True)
class Event:
    """A lane does one kind of thing from `cycles_from` to `cycles_to`.

    Attributes:
        index: row of table `events`.
        lane: where.
        kind: one of EVENT_KINDS.
        cycles_from: first cycle.
        cycles_to: the cycle behind the last.
        run: number of the run; -1: of none.
        program: row of its program; -1: of none.
        cause: row of the event whose end decided the start (of a wait: the end); -1: of none.
    """

    index: int
    lane: Lane = field(repr=False)
    kind: str
    cycles_from: int
    cycles_to: int
    run: int
    program: int
    cause: int

    @property
    def cycles(self) -> int:
        """How long it took."""
        return self.cycles_to - self.cycles_from


@final
class Events:
    """All events of a recording, as columns and one by one."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __len__(self) -> int:
        return self._tables.rows("events")

    def column(self, name: str) -> NDArray[Any]:
        """One column of table `events`, checked: kinds are known, and no event ends before it begins."""
        return self._columns[name]

    def event(self, index: int) -> Event:
        """The event of one row."""
        columns = self._columns
        return Event(
            index=index,
            lane=self.lanes[int(columns["lane"][index])],
            kind=EVENT_KINDS[int(columns["kind"][index])],
            cycles_from=int(columns["start"][index]),
            cycles_to=int(columns["end"][index]),
            run=int(columns["run"][index]),
            program=int(columns["program"][index]),
            cause=int(columns["cause"][index]),
        )

    def select(self, rows: NDArray[Any]) -> Iterator[Event]:
        """The events of some rows."""
        return (self.event(row) for row in rows.tolist())

    def of_lane(self, lane: Lane) -> NDArray[np.int64]:
        """Rows of one lane, in order of time."""
        return self._grouped("lane", lane.index)

    def of_run(self, run: int) -> NDArray[np.int64]:
        """Rows of one run."""
        return self._grouped("run", run)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """All lanes, also those without events."""
        columns: list[list[int]] = [self._tables.column("lanes", name).tolist() for name in ("kind", "number", "target")]
        if max(columns[0], default=0) >= len(LANE_KINDS):
            raise RecordingError(f"column 'lanes/kind' has {max(columns[0])}: there are {len(LANE_KINDS)} kinds of lanes")
        kinds, numbers, targets = columns
        return tuple(
            Lane(index=index, kind=LANE_KINDS[kind], number=numbers[index], target=targets[index]) for index, kind in enumerate(kinds)
        )

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = {name: self._tables.column("events", name) for name in ("lane", "kind", "start", "end", "run", "program", "cause")}
        if len(self):
            kinds, (starts, ends) = columns["kind"], (columns["start"], columns["end"])
            if int(kinds.max()) >= len(EVENT_KINDS):
                raise RecordingError(f"column 'events/kind' has {int(kinds.max())}: there are {len(EVENT_KINDS)} kinds of events")
            wrong = np.flatnonzero((ends < starts) | (starts < 0) | (ends > 2**62))
            if wrong.size:
                row = int(wrong[0])
                raise RecordingError(
                    f"event {row:,} goes from cycle {int(starts[row]):,} to {int(ends[row]):,}: an event begins at 0 or later, and ends "
                    "not before it begins"
                )
            if int(columns["lane"].min()) < 0:
                raise RecordingError("column 'events/lane' has -1: every event is on a lane")
        return columns

    def _grouped(self, column: str, value: int) -> NDArray[np.int64]:
        order, values = self._orders[column]
        begin, end = np.searchsorted(values, (value, value + 1))
        return order[begin:end]

    @cached_property
    def _orders(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Rows by lane and by run; within one, by time."""
        starts = self.column("start")
        found: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for name in ("lane", "run"):
            values = self.column(name).astype(np.int64)  # as numbers are, so that no search has to widen them all
            order = np.lexsort((np.arange(len(values)), starts, values))
            found[name] = (order, values[order])
        return found
