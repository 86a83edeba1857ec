"""The records of one run: its part on each IPU, and the steps that move the clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, final

from tilestep.sim.body import NO_CALLS, BodyCycles, Calls
from tilestep.sim.prepared import Prepared
from tilestep.sim.residency import IpuState, Value
from tilestep.sim.resources import Load

Scope = Literal[
    "own",  # nobody else: a step within an IPU
    "host",  # all IPUs that wait for this one at an access to the host
    "all",  # all IPUs of the partition: an exchange between IPUs
]

_NO_BODY: Final = BodyCycles()


@final
class Part:
    """One IPU's part of one run, and how far it has come."""

    __slots__ = (
        "awaits",
        "beside",
        "body",
        "brought",
        "bytes_in",
        "bytes_to_host",
        "calls",
        "cause",
        "code_bytes",
        "end",
        "event",
        "leaving",
        "own_bytes",
        "ready",
        "reloads",
        "saved",
        "state",
        "staying",
    )

    def __init__(self, state: IpuState, body: BodyCycles = _NO_BODY, calls: Calls = NO_CALLS) -> None:
        self.state = state
        self.body = body
        self.calls = calls
        self.beside = False  # arguments and results pass over I/O tiles, beside compute
        self.reloads = False  # another program was loaded before
        self.brought = False  # its program has been loaded, ahead of its other steps
        self.code_bytes = 0  # that have to be loaded
        self.saved: list[Value] = []  # values of an evicted program that go to the host first
        self.bytes_in = 0  # of arguments that stream in
        self.ready = 0  # cycle from which all arguments are available, as far as their cycles are known
        self.cause = -1  # the event that made the last of them available, as far as events are kept
        self.awaits: list[Value] = []  # arguments whose cycle is not known
        self.bytes_to_host = 0  # of results that stream out
        self.own_bytes = 0  # of arguments that are on the chip before, as far as the group's memory has them
        self.staying: list[Value] = []  # results that stay in SRAM
        self.leaving: list[Value] = []  # results that are at the host or in streaming memory when the part ends
        self.end = 0  # cycle at which its results are available; 0: when its IPU is free again
        self.event = -1  # that ended then, as far as events are kept

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
class Run:
    """One dispatch of a program."""

    __slots__ = (
        "bytes_in",
        "bytes_restored",
        "bytes_saved",
        "group",
        "host",
        "host_event",
        "loads",
        "number",
        "parts",
        "prepared",
        "reloads",
    )

    def __init__(self, prepared: Prepared, group: str, host: int, loads: tuple[Load, ...], number: int, host_event: int) -> None:
        self.prepared = prepared
        self.group = group  # the program group around it, or ""
        self.number = number  # of the dispatch, from 0
        self.host_event = host_event  # of the dispatch, as far as events are kept
        self.bytes_in = 0  # of all its parts
        self.bytes_restored = 0  # the share of `bytes_in` that returns to SRAM, from which it was evicted
        self.bytes_saved = 0
        self.reloads = False  # some part does
        self.host = host  # cycle at which the host has dispatched it
        self.loads = loads  # of links and gateways
        self.parts: list[Part] = []

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

    parts: Sequence[Part]
    sync: int  # cycles of a sync of all IPUs that wait, whether they are in the run or not


class Step(NamedTuple):
    """One thing that IPUs do. `act(start)` does it, moves their clocks, and returns the cycle at which all have done it."""

    act: Callable[[int], int]
    parts: Sequence[Part]
    scope: Scope
    takes_arguments: bool = False  # the parts' arguments have to be available first
    last: bool = False  # the parts' results are available after it
    gives: Sequence[Value] = ()  # values of which the host has a copy after it
