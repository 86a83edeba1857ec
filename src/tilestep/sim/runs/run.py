"""The records of one run: its part on each IPU, and the steps that move the clocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, final

from tilestep.sim.channel import Load
from tilestep.sim.cycles.body import NO_CALLS, BodyCycles, CallCycles
from tilestep.sim.state.prepared import PreparedProgram
from tilestep.sim.state.residency import IpuState, Value

Scope = Literal[
    "own",  # nobody else: a step within an IPU
    "host",  # all IPUs that wait for this one at an access to the host
    "all",  # all IPUs of the partition: an exchange between IPUs
]

_NO_BODY: Final = BodyCycles()


@final
@dataclass(slots=True, eq=False)
class RunPart:
    """One IPU's part of one run, and how far it has come."""

    state: IpuState
    body: BodyCycles = _NO_BODY
    calls: CallCycles = NO_CALLS
    beside: bool = False  # arguments and results pass over I/O tiles, beside compute
    reloads: bool = False  # another program was loaded before
    brought: bool = False  # its program has been loaded, ahead of its other steps
    code_bytes: int = 0  # bytes of code that have to be loaded
    saved: list[Value] = field(default_factory=list[Value])  # values of an evicted program that go to the host first
    bytes_in: int = 0  # bytes of arguments that stream in
    ready: int = 0  # cycle from which all arguments are available, as far as their cycles are known
    cause: int = -1  # the event that made the last of them available, as far as events are kept
    awaits: list[Value] = field(default_factory=list[Value])  # arguments whose cycle is not known
    bytes_to_host: int = 0  # bytes of results that stream out
    own_bytes: int = 0  # bytes of arguments that are on the chip before, as far as the group's memory has them
    staying: list[Value] = field(default_factory=list[Value])  # results that stay in SRAM
    leaving: list[Value] = field(default_factory=list[Value])  # results that are off the chip when the part ends
    end: int = 0  # cycle at which its results are available; 0: when its IPU is free again
    event: int = -1  # the event that ended then, as far as events are kept

    def await_until(self, value: Value) -> None:
        """Says that the part needs a value, whose cycle is known."""
        if value.off_chip_ready > self.ready:
            self.ready = value.off_chip_ready
            self.cause = value.event

    @property
    def streams_out(self) -> bool:
        """Whether bytes of its results leave the chip."""
        return self.bytes_to_host > 0


@final
@dataclass(slots=True, eq=False)
class ProgramRun:
    """One dispatch of a program."""

    prepared: PreparedProgram
    group: str  # the program group around it, or ""
    host: int  # cycle at which the host has dispatched it
    loads: tuple[Load, ...]  # loads of links and gateways
    number: int  # number of the dispatch, from 0
    host_event: int  # the dispatch's, as far as events are kept
    bytes_in: int = 0  # bytes of all its parts
    bytes_restored: int = 0  # the share of `bytes_in` that returns to SRAM, from which it was evicted
    bytes_saved: int = 0
    reloads: bool = False  # some part does
    parts: list[RunPart] = field(default_factory=list[RunPart])

    def note(self, mark: int) -> None:
        """Adds the run to the sums of its program; `mark` is the number of the latest mark before it."""
        bytes_out = 0
        for part in self.parts:
            bytes_out += part.bytes_to_host
        self.prepared.ledger.ran(
            mark=mark,
            group=self.group,
            bytes_in=self.bytes_in - self.bytes_restored,
            bytes_out=bytes_out,
            bytes_saved=self.bytes_saved,
            bytes_restored=self.bytes_restored,
            loaded=self.reloads,
        )


class Share(NamedTuple):
    """Parts of one run whose IPUs wait for each other when one of them accesses the host."""

    parts: Sequence[RunPart]
    sync: int  # cycles of a sync of all IPUs that wait, whether they are in the run or not


class RunStep(NamedTuple):
    """One thing that IPUs do. `act(start)` does it, moves their clocks, and returns the cycle at which all have done it."""

    act: Callable[[int], int]
    parts: Sequence[RunPart]
    scope: Scope
    takes_arguments: bool = False  # the parts' arguments have to be available first
    last: bool = False  # the parts' results are available after it
    gives: Sequence[Value] = ()  # values of which the host has a copy after it
