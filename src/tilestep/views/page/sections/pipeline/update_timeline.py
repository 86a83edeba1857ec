"""What the IPUs of an update did, on the axis of emulated time: pieces of tasks, transfers, and waits with their reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tilestep.figures.reader import Report
from tilestep.figures.reader.runs.causes import NOT_RECORDED, wait_reason
from tilestep.figures.reader.runs.events import Event, Lane
from tilestep.views.page.sections.pipeline.tasks import OWN, DispatchedUpdate, DoneTask

WAITS: Final = ("stage", "transfer", "host", "load", "end", "unknown", "unkept")  # why a device waits
GROUPS: Final = ("own", "host", "ipus", "other")  # a device has own work, transfers with the host or between IPUs, programs of no stage
NO_TASK: Final = -1
_WITH_HOST: Final = ("stream-in", "stream-out", "io-in", "io-out", "load", "save", "read", "transfer")
_LOADS: Final = ("load", "save")


@dataclass(frozen=True, kw_only=True)
class TimePiece:
    """A stretch of time of a device. Attributes: place: of the task among those of the update; NO_TASK. group: index into GROUPS."""

    place: int
    group: int
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A device waits. Attributes: why: index into WAITS. reason: the reader's sentence."""

    why: int
    reason: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Happened:
    """An update on the axis of time.

    Attributes:
        begin: of its first task; end: of its last.
        pieces, gaps: of each device, by its IPUs.
    """

    begin: int
    end: int
    pieces: Mapping[tuple[int, ...], Sequence[TimePiece]]
    gaps: Mapping[tuple[int, ...], Sequence[Gap]]


def happened(report: Report, update: DispatchedUpdate) -> Happened:
    """What the first IPU of each device did between the begin and the end of an update in detail."""
    events = report.execution.events
    place = {run: index for index, task in enumerate(update.tasks) for run in task.runs}
    lanes = {task.ipus: _lane(report, task) for task in update.tasks}
    rows = {ipus: events.of_lane(lane) for ipus, lane in lanes.items()}
    runs, starts, ends = (events.column(name) for name in ("run", "start", "end"))
    wanted = np.fromiter(place, np.int64, len(place))
    own = {ipus: of[np.isin(runs[of], wanted)] for ipus, of in rows.items()}
    begin = min(int(starts[of].min()) for of in own.values() if len(of))
    end = max(int(ends[of].max()) for of in own.values() if len(of))
    pieces: dict[tuple[int, ...], list[TimePiece]] = {}
    gaps: dict[tuple[int, ...], list[Gap]] = {}
    for ipus, of in rows.items():
        first = int(np.searchsorted(np.maximum.accumulate(ends[of]), begin, side="right"))
        last = int(np.searchsorted(starts[of], end))
        pieces[ipus], gaps[ipus] = _of_lane(
            report, lanes[ipus], [events.event(row) for row in of[first : last + 1].tolist()], place, begin, end
        )
    return Happened(begin=begin, end=end, pieces=pieces, gaps=gaps)


def _of_lane(
    report: Report, lane: Lane, events: Sequence[Event], place: Mapping[int, int], begin: int, end: int
) -> tuple[list[TimePiece], list[Gap]]:
    pieces: list[TimePiece] = []
    gaps: list[Gap] = []
    clock = begin
    before: Event | None = None
    for event in events:
        if event.cycles_from > clock:
            gaps.append(_gap(report, lane, before, event, clock, min(event.cycles_from, end)))
        before = event
        if event.cycles_from >= end:
            clock = end
            break
        first, clock = max(event.cycles_from, clock), min(max(clock, event.cycles_to), end)
        own = place.get(event.run, NO_TASK)
        group = _group(event, own)
        if clock > first:
            if pieces and (pieces[-1].place, pieces[-1].group, pieces[-1].end) == (own, group, first):
                first = pieces.pop().begin
            pieces.append(TimePiece(place=own, group=group, begin=first, end=clock))
    if clock < end:
        gaps.append(Gap(why=WAITS.index("end"), reason="it has nothing more to do", begin=clock, end=end))
    return pieces, gaps


def _group(event: Event, place: int) -> int:
    if event.kind in _WITH_HOST:
        return GROUPS.index("host")
    if event.kind == "collective" or (event.run < 0 and event.kind == "sync"):
        return GROUPS.index("ipus") if event.run < 0 or place == NO_TASK else GROUPS.index("own")
    return GROUPS.index("own" if place != NO_TASK and event.kind in OWN else "other")


def _gap(report: Report, lane: Lane, before: Event | None, event: Event, begin: int, end: int) -> Gap:
    """The wait before an event. A wait that goes on behind the update is for what comes then."""
    if before is not None and report.execution.unrecorded.between(lane, np.array([before.index]), np.array([event.index])).any():
        return Gap(why=WAITS.index("unkept"), reason=NOT_RECORDED, begin=begin, end=end)
    cause = None if event.cause < 0 else report.execution.events.event(event.cause)
    return Gap(why=WAITS.index(_why(cause)), reason=wait_reason(cause, lane, report.execution.program_name), begin=begin, end=end)


def _why(cause: Event | None) -> str:
    if cause is None:
        return "unknown"
    if cause.kind in _LOADS:
        return "load"
    if cause.lane.kind == "host":
        return "host"
    return "transfer" if cause.kind in _WITH_HOST or cause.lane.kind not in ("ipu", "io") else "stage"


def _lane(report: Report, task: DoneTask) -> Lane:
    return report.execution.lane("ipu", task.ipus[0])
