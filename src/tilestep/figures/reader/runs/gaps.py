"""Where a recording has no events: between two events of a lane, while runs took place whose events were not kept."""

from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.reader.runs.events import Events, Lane
from tilestep.recording.schema import EVENT_KINDS
from tilestep.recording.tables import Tables
from tilestep.sim.trace import BESIDE

Numbers = NDArray[np.int64]
_KINDS: Final = len(EVENT_KINDS)
_BESIDE: Final = tuple(EVENT_KINDS.index(kind) for kind in BESIDE)
_READ: Final = EVENT_KINDS.index("read")
_IPU_LANES: Final = ("ipu", "io")


@final
class Unrecorded:
    """Says of the gaps between the events of a lane whether events may be missing there.

    The sums of a recording have all runs. So an IPU of which a program's events take as long as its sums say lacks none of that program.
    Of other lanes there are no sums: each run without events may have used them.
    """

    def __init__(self, tables: Tables, events: Events) -> None:
        self._tables, self._events = tables, events
        self._of_lanes: dict[int, tuple[Numbers, Numbers, Numbers, Numbers]] = {}

    def between(self, lane: Lane, before: Numbers, behind: Numbers) -> NDArray[np.bool_]:
        """Whether something of a lane may be missing between pairs of its events.

        Args: before, behind: rows of table `events`, one pair for each gap.
        """
        if lane.index not in self._of_lanes:
            self._of_lanes[lane.index] = self._of_lane(lane)
        omitted, rows, least, most = self._of_lanes[lane.index]
        if not len(omitted):
            return np.zeros(len(before), np.bool_)
        order = np.argsort(rows)
        first, last = (order[np.searchsorted(rows[order], each)] for each in (before, behind))
        return np.searchsorted(omitted, least[first], side="left") < np.searchsorted(omitted, most[last], side="right")

    def _of_lane(self, lane: Lane) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """(runs that may be missing on a lane; its events in order of time, and of each the first run at or behind it, the last up to it).

        A lane works on runs in order of dispatch. But the runs of one entry into a group, such as an update of a pipeline, take turns: each
        of them counts as the whole entry.
        """
        omitted, rows = self._omitted_on(lane), self._events.of_lane(lane)
        if not len(omitted):
            return omitted, rows, rows, rows
        runs = self._runs[rows]
        first, last = (np.where(runs >= 0, bound[runs], -1) for bound in self._entries)
        return omitted, rows, np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last)

    @cached_property
    def _entries(self) -> tuple[Numbers, Numbers]:
        """(first, last) run of the entry into a group that each run is of; itself if it is of none."""
        group, entry = (self._tables.column("runs", name).astype(np.int64) for name in ("group", "entry"))
        first = np.arange(len(entry))
        last = first.copy()
        grouped = np.flatnonzero(entry > 0)
        order = grouped[np.lexsort((grouped, entry[grouped], group[grouped]))]
        if len(order):
            begins = np.flatnonzero((np.diff(group[order], prepend=-9) != 0) | (np.diff(entry[order], prepend=-9) != 0))
            sizes = np.diff(begins, append=len(order))
            first[order] = np.repeat(order[begins], sizes)
            last[order] = np.repeat(order[begins + sizes - 1], sizes)
        return first, last

    @cached_property
    def _runs(self) -> Numbers:
        """The run that each event goes with: its own, or that of the event before it, as `capture.in_detail` keeps them."""
        runs = self._events.column("run").astype(np.int64)
        known = np.where(runs >= 0, np.arange(len(runs)), 0)
        np.maximum.accumulate(known, out=known)
        return runs[known] if len(runs) else runs

    @cached_property
    def _omitted(self) -> Numbers:
        """Runs without events, in order."""
        runs = self._events.column("run")
        has = np.zeros(self._tables.rows("runs"), np.bool_)
        has[runs[runs >= 0]] = True
        return np.flatnonzero(~has)

    def _omitted_on(self, lane: Lane) -> Numbers:
        """The runs without events that may have used a lane."""
        if lane.kind not in _IPU_LANES or not self._tables.rows("sums") or not len(self._omitted):
            return self._omitted
        missing = self._missing(lane)
        if not missing.any():
            return self._omitted[:0]
        rows = self._events.of_lane(lane)
        if missing[:, _READ].any() or (self._events.column("run")[rows] < 0).any():
            return self._omitted  # an event of no run may be missing behind each of them
        of_runs = self._tables.column("runs", "program")[self._omitted]
        lacks = np.any(missing, axis=1, keepdims=True)[:, 0]
        return self._omitted[lacks[of_runs]]

    def _missing(self, lane: Lane) -> NDArray[np.bool_]:
        """[programs, kinds] whether events of a lane take less time than the sums of its IPU."""
        found = np.zeros((self._tables.rows("programs"), _KINDS), np.int64)
        program, ipu, kind, cycles = (self._tables.column("sums", name).astype(np.int64) for name in ("program", "ipu", "kind", "cycles"))
        mine = (ipu == lane.number) & (kind < _KINDS) & (np.isin(kind, _BESIDE) == (lane.kind == "io"))
        np.add.at(found, (program[mine], kind[mine]), cycles[mine])
        rows = self._events.of_lane(lane)
        rows = rows[self._events.column("program")[rows] >= 0]
        program, kind, start, end = (self._events.column(name)[rows].astype(np.int64) for name in ("program", "kind", "start", "end"))
        np.subtract.at(found, (program, kind), end - start)
        return found > 0
