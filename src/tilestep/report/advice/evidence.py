"""The evidence behind the advice: the history of a profile, which is played again with a change to see what the change saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.record.edits.script import Change, Script
from tilestep.record.history import History
from tilestep.record.replay import replay
from tilestep.record.sources import Source
from tilestep.sim.calls import Call, Dispatch
from tilestep.sim.snapshot import Snapshot
from tilestep.units import seconds_from_cycles

MOST_WORK: Final = 4_000_000  # numbers of calls that are played for all findings together: less than five seconds
_CALL_WORK: Final = 12  # numbers that take as long as a call does beside its own
_FIRST_SHARE: Final = 0.25  # of that work, for the way to the last runs


@dataclass(frozen=True, kw_only=True)
class Played:
    """A part of a history that is short enough to be played for each finding.

    Attributes:
        history: the part, with a snapshot at its begin.
        script: its calls and programs.
        cycles: that it takes.
        basis: '' for the whole history, else words.
    """

    history: History
    script: Script
    cycles: int
    basis: str

    def saved(self, change: Change, *, machine: MachineSpec | None = None) -> int | None:
        """Cycles that the part takes less with a change; None if the host program cannot be written so."""
        try:
            changed = change(self.script)
            system = replay(self.history, machine=machine, programs=changed.programs, calls=changed.calls)
        except ValueError:  # of the edit, or of a call that cannot be made any more
            return None
        return self.cycles - (system.end_cycle - _begin(self.history.snapshot))


@final
class Evidence:
    """The history of a profile, and what is worked out of it once.

    Args:
        history: of the profile.
        sources: what its programs were planned from, by key.
        emulated_cycles: of the profile.
    """

    def __init__(self, history: History, sources: Mapping[int, Source], emulated_cycles: int) -> None:
        self.history = history
        self.sources = sources
        self.emulated_cycles = emulated_cycles

    @property
    def machine(self) -> MachineSpec:
        """That was emulated."""
        return self.history.machine

    @property
    def programs(self) -> Mapping[int, Program]:
        """Of the history, by key."""
        return self.history.programs

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Of the history, with names for their numbers."""
        return tuple(self.history.calls)

    @cached_property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """Of the history, in order."""
        return tuple(call for call in self.calls if isinstance(call, Dispatch))

    def played_for(self, changes: int) -> Played:
        """The part of the history that may be played so often: all of it, or its last runs."""
        work = len(self.history.calls.numbers) + _CALL_WORK * len(self.calls)
        allowed = MOST_WORK // (changes + 1)
        if work <= allowed:
            return _played(self.history, self.calls, "")
        share = (1 - _FIRST_SHARE) * allowed / work
        return self._last(int(len(self.calls) * share))

    def seconds(self, cycles: int) -> float:
        """Of emulated time."""
        return seconds_from_cycles(cycles, self.machine.ipu.clock_hz)

    def _last(self, count: int) -> Played:
        """The last calls, from the begin of a run on."""
        calls = self.calls
        start = next(_starts(calls, len(calls) - count), 0)
        system = replay(self.history, calls=calls[:start])
        rest = calls[start:]
        part = History(machine=self.machine, programs=self.programs, snapshot=system.snapshot(), calls=self.history.calls)
        runs = sum(isinstance(call, Dispatch) for call in rest)
        return _played(part, rest, f"of the last {runs:,} of {len(self.dispatches):,} runs")


def _played(history: History, calls: tuple[Call, ...], basis: str) -> Played:
    system = replay(history, calls=calls)
    script = Script(calls=calls, programs=history.programs)
    return Played(history=history, script=script, cycles=system.end_cycle - _begin(history.snapshot), basis=basis)


def _starts(calls: tuple[Call, ...], first: int) -> Iterator[int]:
    """Positions from `first` on of dispatches that are in no group, or begin an entry; then the last call."""
    before: tuple[str, int] | None = None
    for index, call in enumerate(calls):
        if isinstance(call, Dispatch):
            if index >= first and (call.group is None or call.group != before):
                yield index
            before = call.group


def _begin(snapshot: Snapshot) -> int:
    """The end of all work before the history."""
    return max(snapshot.horizon, snapshot.host_cycle)
