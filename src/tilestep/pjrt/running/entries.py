"""Entries of the journal: calls on the emulated system, and what becomes one when it is replayed.

An entry is appended as a plain tuple of its type and its fields, by Python and by C (native/execute.c, put.c, buffer.c, read.c).
So a dispatch makes one tuple and runs no bytecode. While a recording keeps the calls, Python appends all entries, because some have the
user's line then (host_notes.py). `named` gives the fields their names when the entry is replayed.
"""

from typing import Any, NamedTuple

from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan.steps import Program
from tilestep.sim.calls import Accumulated, Copy, HostLine, Moment, Put, Read, Wait

RawEntry = tuple[Any, ...]


class PlannedRun(NamedTuple):
    """A program as emulated time sees it. Its key is the number of its executable."""

    program: Program
    key: int
    ipus: tuple[int, ...]
    num_outputs: int
    counted: tuple[tuple[int, int], ...]  # (site, arm) of each counter
    source: ProgramSource
    simulated: tuple[int, ...]  # those of the IPUs that are


class RunEntry(NamedTuple):
    """A program was dispatched. Its counters have no value yet."""

    planned: PlannedRun
    arguments: tuple[int, ...]  # values, IPU by IPU
    first: int  # the first result's value; the others follow, IPU by IPU
    counters: list[list[Any]]  # arrays of the program's counters, by counter and IPU
    undonated: tuple[int, ...]  # arguments that the program may not take over
    group: tuple[str, int] | None
    task: tuple[int, str, int] | None  # stage, kind and microbatch in a pipeline
    line: HostLine | None = None

    def has_counted(self) -> bool:
        """Whether all counters have their value."""
        return all(array.is_ready() for column in self.counters for array in column[:1])


class MomentWanted(NamedTuple):
    """The host program wants this moment."""

    cell: list[Moment]  # gets it


class Upload(NamedTuple):
    """A host array becomes a value, as if that had begun at a moment."""

    put: Put
    begin: list[Moment] | None  # cell of a moment; None: it begins now


Entry = Put | Copy | Read | Wait | Accumulated | RunEntry | MomentWanted | Upload


def named(raw: RawEntry) -> Entry:
    """The entry with names for its fields."""
    return raw[0](*raw[1:])
