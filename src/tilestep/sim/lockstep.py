"""Runs of one program group, which hold each other up where its IPUs synchronise: an event loop.

Members of a group are one program to the machine. What the host dispatches in one entry into the group is one launch of it,
and the dispatches, IPU by IPU, are its steps. They are collected until the entry is over, or somebody needs to know a time,
and then played in order of time:

- A step within an IPU begins when its IPU has come to it and, if others take part, they have as well.
- An access to the host is asked for when its IPUs have come to it. It begins when all that have to wait for them are
  between two steps, and they stay so until it is over. What is asked for meanwhile by others of them happens at once.
- An exchange between IPUs is the same with all IPUs of the partition.
- An IPU that comes between two steps while something is asked for waits.

What happens in one cycle happens in two rounds: first everybody arrives, then what can begins, in the order in which it
was asked for. A step costs as many events however many IPUs there are.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final, final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.execute import Execution, Part, Run, Share, Step
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.residency import IpuState, Partition, Value
from tilestep.sim.sync import sync_cycles

MAX_WORK: Final = 4096  # runs and copies that wait to be played; with more, what there is is played without the rest


@final
class _Item:
    """A step that its IPUs have in their queues."""

    __slots__ = ("missing", "ready", "step")

    def __init__(self, step: Step, ready: int) -> None:
        self.step = step
        self.ready = ready  # cycle before which it cannot begin, as far as known
        self.missing = len(step.parts)  # IPUs that have not come to it, and arguments whose cycle is not known


@final
class _Set:
    """IPUs that wait for each other: at an access to the host, or all of them at an exchange."""

    __slots__ = ("asked", "busy", "held", "ipus", "parked", "sync", "until")

    def __init__(self) -> None:
        self.ipus: list[int] = []
        self.sync = 0  # cycles of a sync
        self.busy = 0  # of its IPUs, those in the middle of a step
        self.held = False  # while what they wait for goes on
        self.until = 0  # the latest end of that
        self.asked: list[_Item] = []
        self.parked: list[_Item] = []  # steps that would begin if nothing were asked for


_Download = tuple[Value, Part, ProgramLedger, int]  # and the cycle at which the host has asked for it
_Ending = tuple[_Set, list[_Item]] | _Item | IpuState


@final
class Lockstep:
    """The work of one entry into a group that has not been played yet."""

    def __init__(self, machine: MachineSpec, execution: Execution) -> None:
        self.partition: Partition | None = None  # whose work it is; None: there is none
        self.entry = 0
        self._machine = machine
        self._execution = execution
        self._work: list[Run | _Download] = []
        self._copies: dict[Value, list[tuple[Value, int]]] = {}  # source -> (target, cycle at which the host asked)

    def add_run(self, run: Run, partition: Partition, entry: int) -> None:
        """A run of a member. What it makes or saves is pending from now on.

        Whoever calls it has settled what was there of another partition or entry.
        """
        self.partition, self.entry = partition, entry
        self._work.append(run)
        for part in run.parts:
            for value in (*part.saved, *part.leaving):
                value.pending = True
        if len(self._work) >= MAX_WORK:
            self.settle()

    def add_download(self, value: Value, state: IpuState, ledger: ProgramLedger, host: int) -> None:
        """A copy to the host of a value that lives in the SRAM of a member."""
        self._work.append((value, Part(state), ledger, host))
        value.host_ready = 0
        value.pending = True

    def add_copy(self, source: Value, target: Value, host: int) -> None:
        """`target` can be had as soon as `source`, which is pending."""
        self._copies.setdefault(source, []).append((target, host))
        target.pending = True

    def settle(self) -> None:
        """Plays all of it."""
        if self.partition is not None:
            work, copies = self._work, self._copies
            self._work, self._copies = [], {}
            _Play(self._machine, self._execution, self.partition, copies).play(work)
            self.partition = None


@final
class _Play:
    """One playing of the work of a partition."""

    def __init__(
        self, machine: MachineSpec, execution: Execution, partition: Partition, copies: dict[Value, list[tuple[Value, int]]]
    ) -> None:
        self._execution = execution
        self._members = partition.members
        self._copies = copies
        self._waiting: dict[Value, list[tuple[_Item, Part]]] = {}
        self._queues: dict[int, deque[_Item]] = {index: deque() for index in self._members}
        self._whole = _Set()
        self._sets: dict[int, _Set] = {}
        for index, state in self._members.items():
            self._sets.setdefault(state.host_set, _Set()).ipus.append(index)
        for waiting in self._sets.values():
            waiting.sync = sync_cycles(machine, tuple(waiting.ipus))
        self._asking: list[_Set] = []  # sets that something is asked of
        self._own: list[_Item] = []  # steps within an IPU that could begin now
        self._events: list[tuple[int, int, bool, _Ending]] = []  # (cycle, serial, whether something ends, what)
        self._serial = 0

    def play(self, work: list[Run | _Download]) -> None:
        """Moves the clocks of all members by `work`."""
        if len(self._members) == 1:
            self._in_turn(work)
            return
        for entry in work:
            self._enqueue(entry)
        for state in self._members.values():
            self._occupy(state, 1)
            self._push(state.free, state, ends=True)
        events = self._events
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, _, ends, what = heapq.heappop(events)
                if ends:
                    self._end(what, now)
                else:
                    assert isinstance(what, _Item)  # only items become ready
                    self._ask(what)
            self._begin(now)
        assert not any(self._queues.values()), "steps are left that wait for each other"
        for state in self._members.values():
            state.free = max(state.free, self._sets[state.host_set].until, self._whole.until)

    def _in_turn(self, work: list[Run | _Download]) -> None:
        """The same for one IPU, which waits for nobody."""
        for entry in work:
            if isinstance(entry, Run):
                (part,) = entry.parts
                part.ready = max((part.ready, *(value.off_chip_ready for value in part.awaits)))
                self._execution.at_once(entry)
                made = (*part.saved, *part.leaving)
            else:
                value, part, ledger, host = entry
                self._execution.download(value, part, ledger, 0, max(host, part.state.free))
                made = (value,)
            for value in made:
                self._give(value)

    def _enqueue(self, entry: Run | _Download) -> None:
        for step, host in self._steps(entry):
            item = _Item(step, host)
            for part in step.parts:
                self._queues[part.state.index].append(item)
                if not step.takes_arguments:
                    continue
                if not part.beside:
                    item.ready = max(item.ready, part.ready)
                for value in part.awaits:
                    item.missing += 1
                    self._waiting.setdefault(value, []).append((item, part))
                part.awaits = []

    def _steps(self, entry: Run | _Download) -> Iterator[tuple[Step, int]]:
        if not isinstance(entry, Run):
            value, part, ledger, host = entry
            sync = self._sets[part.state.host_set].sync
            yield Step(partial(self._execution.download, value, part, ledger, sync), [part], "host", gives=[value]), host
            return
        by_set: dict[int, list[Part]] = {}
        for part in entry.parts:
            by_set.setdefault(part.state.host_set, []).append(part)
            part.beside = entry.prepared.num_io_tiles > 0 and len(self._sets[part.state.host_set].ipus) == 1
        shares = [Share(parts, self._sets[number].sync) for number, parts in by_set.items()]
        for step in self._execution.steps(entry, shares):
            yield step, entry.host

    def _push(self, cycle: int, what: _Ending, *, ends: bool) -> None:
        heapq.heappush(self._events, (cycle, self._serial, ends, what))
        self._serial += 1

    def _occupy(self, state: IpuState, change: int) -> None:
        self._sets[state.host_set].busy += change
        self._whole.busy += change

    def _come(self, index: int, now: int) -> None:
        """An IPU comes to its next step, if there is one."""
        queue = self._queues[index]
        if queue:
            item = queue.popleft()
            item.ready = max(item.ready, now)
            self._less_missing(item)

    def _less_missing(self, item: _Item) -> None:
        item.missing -= 1
        if not item.missing:
            self._push(item.ready, item, ends=False)

    def _ask(self, item: _Item) -> None:
        """All that take part have come to a step."""
        match item.step.scope:
            case "own":
                self._own.append(item)
            case "host":
                waiting = self._sets[item.step.parts[0].state.host_set]
                if not waiting.asked:
                    self._asking.append(waiting)
                waiting.asked.append(item)
            case "all":
                self._whole.asked.append(item)

    def _begin(self, now: int) -> None:
        """What can begin in cycle `now` does."""
        whole = self._whole
        if whole.asked and not whole.busy and not whole.held:
            self._fire(whole, now)
        if self._asking and not whole.held:
            ready = [waiting for waiting in self._asking if not waiting.busy and not waiting.held]
            self._asking = [waiting for waiting in self._asking if waiting not in ready]
            for waiting in ready:
                whole.busy += 1
                self._fire(waiting, now)
        own, self._own = self._own, []
        for item in own:
            blocking = self._blocking(item)
            if blocking is not None:
                blocking.parked.append(item)
                continue
            for part in item.step.parts:
                self._occupy(part.state, 1)
            self._push(item.step.act(now), item, ends=True)

    def _blocking(self, item: _Item) -> _Set | None:
        """A set of which something is asked, or which is held, that a step within IPUs has to wait for."""
        sets = (self._whole, *(self._sets[part.state.host_set] for part in item.step.parts))
        return next((waiting for waiting in sets if waiting.held or waiting.asked), None)

    def _fire(self, waiting: _Set, now: int) -> None:
        items, waiting.asked = waiting.asked, []
        waiting.until = max(item.step.act(now) for item in items)
        waiting.held = True
        self._push(waiting.until, (waiting, items), ends=True)

    def _end(self, what: _Ending, now: int) -> None:
        match what:
            case IpuState():
                self._occupy(what, -1)
                self._come(what.index, now)
            case _Item():
                for part in what.step.parts:
                    self._occupy(part.state, -1)
                self._done(what, now)
            case (waiting, items):
                waiting.held = False
                if waiting is not self._whole:
                    self._whole.busy -= 1
                self._own += waiting.parked
                waiting.parked = []
                for item in items:
                    self._done(item, now)

    def _done(self, item: _Item, now: int) -> None:
        step = item.step
        for part in step.parts:
            part.state.free = now
            if step.last:
                self._execution.finish(part)
                for value in part.leaving:
                    self._give(value)
        for value in step.gives:
            self._give(value)
        for part in step.parts:
            self._come(part.state.index, now)

    def _give(self, value: Value) -> None:
        """The cycle from which a value can be had off the chip is known."""
        if not value.pending:
            return
        value.pending = False
        for target, host in self._copies.pop(value, ()):
            target.ready = target.host_ready = max(value.off_chip_ready, host)
            self._give(target)
        for item, part in self._waiting.pop(value, ()):
            part.ready = max(part.ready, value.off_chip_ready)
            if not part.beside:
                item.ready = max(item.ready, part.ready)
            self._less_missing(item)
