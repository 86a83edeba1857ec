"""Entries of the journal: the events that the host program caused.

An entry is appended as a plain tuple of its type and its fields, by Python and by C (native/execute.c, put.c, buffer.c, read.c).
So a dispatch makes one tuple and runs no bytecode. While a recording keeps the calls, Python appends all entries, because some have the
user's line then (host_notes.py). `named` gives the fields their names when the entry is replayed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilestep.hints import EffectiveBatch
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan.steps import Program
from tilestep.sim.calls import HostLine
from tilestep.sim.calls import Moment as SimMoment

RawEntry = tuple[Any, ...]


class PlannedRun(NamedTuple):
    """A program as emulated time sees it."""

    program: Program
    key: int  # of the executable
    ipus: tuple[int, ...]
    num_outputs: int
    counted: tuple[tuple[int, int], ...]  # (site, arm) of each counter
    source: ProgramSource


class Put(NamedTuple):
    """A host array became a value."""

    value: int
    ipu: int
    size_bytes: int
    on_host: bool
    begin: list[SimMoment] | None = None  # cell of the `Moment` at which the transfer began; None: it begins now
    contents: int = 0  # equal for equal bytes; 0: unknown


class Copy(NamedTuple):
    """A value was copied to another IPU or memory."""

    source: int
    target: int
    ipu: int
    on_host: bool
    group: tuple[str, int] | None


class Read(NamedTuple):
    """The host read a value."""

    value: int
    line: HostLine | None = None


class Wait(NamedTuple):
    """The host waited for a value."""

    value: int
    line: HostLine | None = None


class Run(NamedTuple):
    """A program was dispatched."""

    planned: PlannedRun
    arguments: tuple[int, ...]  # values, IPU by IPU
    first: int  # the first result's value; the others follow, IPU by IPU
    counters: list[list[Any]]  # arrays of the program's counters, by counter and IPU
    undonated: tuple[int, ...]  # arguments that the program may not take over
    group: tuple[str, int] | None
    task: tuple[int, str, int] | None  # of a pipeline: stage, kind, microbatch
    line: HostLine | None = None

    def has_counted(self) -> bool:
        """Whether all counters have their value."""
        return all(array.is_ready() for column in self.counters for array in column[:1])


class Moment(NamedTuple):
    """The host program wants this moment."""

    cell: list[SimMoment]  # gets it


class Accumulated(NamedTuple):
    """A loop that accumulates gradients has done some steps."""

    batch: EffectiveBatch
    steps: int


Entry = Put | Copy | Read | Wait | Run | Moment | Accumulated


def named(raw: RawEntry) -> Entry:
    """The entry with names for its fields."""
    return raw[0](*raw[1:])


def raw(entry: Entry) -> RawEntry:
    """The entry as it stands in the journal."""
    return type(entry), *entry
