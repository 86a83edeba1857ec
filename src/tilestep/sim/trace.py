"""The events of a simulation, in dispatch order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

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
MAX_EVENTS: Final = 500_000  # a trace keeps the first of them; totals count all


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
    """

    ipu: int
    start_cycle: int
    end_cycle: int
    kind: EventKind
    program: str


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Events in the order in which they were worked out. Those of one IPU's tiles, or of its I/O tiles, are in order of time.

    Attributes:
        events: at most `MAX_EVENTS`.
        dropped: further events, which were counted but not kept.
    """

    events: tuple[Event, ...]
    dropped: int


@final
class Recorder:
    """Keeps the events of a running simulation. Positions stay valid when events are cleared."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.dropped = 0
        self._cleared = 0
        self._rows: list[tuple[int, int, int, EventKind, str]] = []

    @property
    def position(self) -> int:
        """Where the next event will go."""
        return self._cleared + len(self._rows)

    def add(self, ipu: int, start_cycle: int, end_cycle: int, kind: EventKind, program: str) -> None:
        if len(self._rows) < MAX_EVENTS:
            self._rows.append((ipu, start_cycle, end_cycle, kind, program))
        else:
            self.dropped += 1

    def between(self, start: int, end: int) -> tuple[Event, ...]:
        """Events from one position up to another."""
        rows = self._rows[max(start - self._cleared, 0) : max(end - self._cleared, 0)]
        return tuple(Event(ipu=ipu, start_cycle=a, end_cycle=b, kind=kind, program=program) for ipu, a, b, kind, program in rows)

    def clear(self) -> None:
        """Drops all events."""
        self._cleared += len(self._rows)
        self._rows.clear()
