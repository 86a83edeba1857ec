"""Why something began when it did: the critical path, and the reason of each wait."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tilestep.errors import RecordingError
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.reader.runs.events import Event, Events, Lane
from tilestep.figures.reader.runs.gaps import Unrecorded

NOT_RECORDED: Final = "the events of runs in this time were not kept, so it may have worked"


@dataclass(frozen=True, kw_only=True)
class PathPiece:
    """A part of the critical path.

    Attributes:
        event: that took this time.
        cycles_from: where the event before it on the path ends, which is where this one begins.
        cycles_to: its end.
    """

    event: Event
    cycles_from: int
    cycles_to: int

    @property
    def cycles(self) -> int:
        """How much of the whole time it takes."""
        return self.cycles_to - self.cycles_from


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """The events that decided the end, each of which decided when the next began. Nothing else can shorten the whole.

    It begins before the time that `Profile.emulated_cycles` counts, if work from before the recording still ran when its own work began.

    Attributes:
        pieces: in order of time; they follow each other without a gap.
        complete: whether it goes back to the first event. Else the events before were not kept: a recording has those of the first and of
            the last runs of each program (autoReport.executionProfileProgramRunCount).
    """

    pieces: tuple[PathPiece, ...]
    complete: bool

    @property
    def cycles_from(self) -> int:
        """Where the first begins."""
        return self.pieces[0].cycles_from

    @property
    def cycles_to(self) -> int:
        """The end of the last event."""
        return self.pieces[-1].cycles_to

    @property
    def cycles(self) -> int:
        """Of all pieces together."""
        return sum(piece.cycles for piece in self.pieces)


@dataclass(frozen=True, kw_only=True)
class Unkept:
    """A gap between two events of a lane in which runs took place whose events were not kept. Nobody knows how much of it was a wait.

    Attributes:
        lane: of the gap.
        cycles_from: first cycle.
        cycles_to: the cycle behind the last.
        before: the event behind the gap.
    """

    lane: Lane
    cycles_from: int
    cycles_to: int
    before: Event
    reason: str = NOT_RECORDED

    @property
    def cycles(self) -> int:
        """How long it is."""
        return self.cycles_to - self.cycles_from


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A lane did nothing, because what it did next could not begin.

    Attributes:
        lane: that waited.
        cycles_from: first cycle.
        cycles_to: the cycle behind the last.
        before: the event for which it waited.
        cause: the event whose end decided when that began; None: unknown.
        reason: a sentence.
    """

    lane: Lane
    cycles_from: int
    cycles_to: int
    before: Event
    cause: Event | None
    reason: str

    @property
    def cycles(self) -> int:
        """How long it waited."""
        return self.cycles_to - self.cycles_from


def critical_path(events: Events) -> CriticalPath:
    """The chain of causes from the last event back to one that has none.

    Raises: RecordingError if there are no events, or a chain of causes never ends.
    """
    rows = path_rows(events)
    pieces: list[PathPiece] = []
    for event in map(events.event, rows):
        pieces.append(PathPiece(event=event, cycles_from=pieces[-1].cycles_to if pieces else event.cycles_from, cycles_to=event.cycles_to))
    kept = tuple(piece for piece in pieces if piece.cycles) or (pieces[-1],)
    return CriticalPath(pieces=kept, complete=kept[0].cycles_from == int(events.column("start").min()))


def path_rows(events: Events) -> list[int]:
    """The rows of the critical path in order of time, also those that take no time of it.

    Raises: RecordingError as `critical_path` does.
    """
    if not len(events):
        raise RecordingError("the recording has no events, so no critical path: it was made without an execution")
    causes: list[int] = events.column("cause").tolist()
    rows = [int(np.argmax(events.column("end")))]
    while (cause := causes[rows[-1]]) >= 0:
        if len(rows) == len(causes):
            raise RecordingError("column 'events/cause' goes in a circle: no event can decide its own begin")
        rows.append(cause)
    return rows[::-1]


def gaps_of(events: Events, unrecorded: Unrecorded, lane: Lane, program_name: Callable[[int], str]) -> Iterator[Wait | Unkept]:
    """The gaps between the events of a lane, in order of time: waits, and stretches without events."""
    rows = events.of_lane(lane)
    ends = np.maximum.accumulate(events.column("end")[rows])
    places = np.flatnonzero(events.column("start")[rows][1:] > ends[:-1])
    missing = unrecorded.between(lane, rows[places], rows[places + 1])
    for place, unkept in zip(places.tolist(), missing.tolist(), strict=True):
        event, clock = events.event(int(rows[place + 1])), int(ends[place])
        if unkept:
            yield Unkept(lane=lane, cycles_from=clock, cycles_to=event.cycles_from, before=event)
            continue
        cause = None if event.cause < 0 else events.event(event.cause)
        yield Wait(
            lane=lane,
            cycles_from=clock,
            cycles_to=event.cycles_from,
            before=event,
            cause=cause,
            reason=wait_reason(cause, lane, program_name),
        )


def wait_reason(cause: Event | None, lane: Lane, program_name: Callable[[int], str]) -> str:
    """Why something on a lane could not begin before: a sentence."""
    if cause is None:
        return "what it waited for is not in the recording"
    what = KIND_TEXTS[cause.kind] + (f" · {program_name(cause.program)}" if cause.program >= 0 else "")
    if cause.lane.kind == "host":
        return f"the host had not dispatched it before: {what}"
    if cause.lane == lane:
        return f"its own work had to end: {what}"
    return f"{cause.lane.name} had to end: {what}"
