"""Plays a launch in the faster of two orders.

Where IPUs do not all wait for an access to the host, the order of steps depends on how long they take: an IPU that goes ahead may hold up
an exchange that others wait for. A compiler fixes the order of a launch ahead, and knows what it takes. So an order in which all wait for
each other is open to it under each pattern, and no pattern is slower than `full`. Both orders are played. The faster counts; of equally
fast ones that of the machine's own pattern.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, final

from tilestep.machine.fields import SyncPattern
from tilestep.machine.spec import MachineSpec
from tilestep.sim.channel import Channel
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.play import Download, Pass, Play, Work
from tilestep.sim.runs.run import ProgramRun, RunPart
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.sim.state.residency import IpuState, SyncPartition, Value

Copies = dict[Value, list[tuple[Value, int]]]
Loading = dict[int, tuple[ProgramRun, RunPart]]

_FULL: Final[SyncPattern] = "full"


def play_fastest(
    machine: MachineSpec, execution: Executor, partition: SyncPartition, copies: Copies, loading: Loading, work: list[Work]
) -> None:
    """Moves the clocks of all members by `work`. Args: as for `Play`."""

    def play(pattern: SyncPattern) -> int:
        Play(machine, execution, partition, copies, loading, pattern).play(work)
        return max(max(state.free, state.io_end) for state in partition.members.values())

    own: SyncPattern = machine.sync_pattern
    if len({state.host_set for state in partition.together(machine.num_simulated)}) < 2:  # all wait for each other under each pattern
        play(own)
        return
    before = _Before(execution, partition, copies, loading, work)
    by_full = before.tried(partial(play, _FULL))
    if execution.recorder.enabled:  # events of the slower order could not be taken back
        play(own if before.tried(partial(play, own)) <= by_full else _FULL)
    elif play(own) > by_full:
        before.restore()
        play(_FULL)


@final
class _Before:
    """All that a play changes, as it was before."""

    def __init__(self, execution: Executor, partition: SyncPartition, copies: Copies, loading: Loading, work: list[Work]) -> None:
        self._execution, self._horizon = execution, execution.horizon
        self._slots = [(thing, _slots(thing)) for thing in _things(partition, copies, loading, work)]
        self._io = [state.io for state in partition.members.values()]
        self._spans = {id(channel): channel.snapshot() for channel in self._channels()}
        self._ledgers = {id(ledger): (ledger, copy.deepcopy(ledger.cycles)) for ledger in _ledgers(work)}

    def _channels(self) -> Iterator[Channel]:
        yield from self._execution.resources.all()
        yield from self._io

    def tried(self, play: Callable[[], int]) -> int:
        """What `play` returns, which does not count."""
        recorder = self._execution.recorder
        enabled, recorder.enabled = recorder.enabled, False
        try:
            return play()
        finally:
            recorder.enabled = enabled
            self.restore()

    def restore(self) -> None:
        """Takes back what has been played since."""
        self._execution.horizon = self._horizon
        for thing, slots in self._slots:
            for name, value in slots.items():
                setattr(thing, name, value)
        for channel in self._channels():
            channel.rewind(self._spans.get(id(channel), ([], [])))  # a play makes those that it is the first to use
        for ledger, cycles in self._ledgers.values():
            ledger.cycles = copy.deepcopy(cycles)


def _slots(thing: IpuState | RunPart | Value) -> dict[str, Any]:
    """Its attributes. No play changes a list of them in place."""
    return {name: getattr(thing, name) for name in thing.__slots__}


def _things(partition: SyncPartition, copies: Copies, loading: Loading, work: list[Work]) -> Iterator[IpuState | RunPart | Value]:
    yield from partition.members.values()
    for source, targets in copies.items():
        yield source
        for target, _ in targets:
            yield target
    parts = [part for _, part in loading.values()]
    for entry in work:
        if isinstance(entry, Download):
            yield entry.value
            parts.append(entry.part)
        elif isinstance(entry, ProgramRun):
            parts += entry.parts
    for part in parts:
        yield part
        for values in (part.awaits, part.saved, part.staying, part.leaving):
            yield from values


def _ledgers(work: list[Work]) -> Iterator[ProgramLedger]:
    for entry in work:
        if isinstance(entry, ProgramRun):
            yield entry.prepared.ledger
        elif isinstance(entry, Pass):
            yield from entry.members.values()
        else:
            yield entry.ledger
