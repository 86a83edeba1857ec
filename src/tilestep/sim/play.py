"""Playing the work of a program group, whose runs hold each other up where its IPUs synchronise: an event loop.

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
from typing import NamedTuple, final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.execute import Execution, Part, Run, Share, Step
from tilestep.sim.ledger import ProgramLedger
from tilestep.sim.residency import IpuState, Partition, Value
from tilestep.sim.sync import sync_cycles


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


class Download(NamedTuple):
    """A value that lives in SRAM goes to the host."""

    value: Value
    part: Part
    ledger: ProgramLedger
    host: int  # cycle at which the host has asked for it


@final
class Pass:
    """Values that go from IPUs to others in one exchange."""

    __slots__ = ("host", "members", "sizes", "takers")

    def __init__(self) -> None:
        self.members: dict[IpuState, ProgramLedger] = {}  # all that take part, and who made or takes their first value
        self.takers: list[IpuState] = []
        self.sizes: dict[tuple[int, int], int] = {}  # (from, to) -> bytes
        self.host = 0  # cycle at which the host has asked for all of them

    def add(self, giver: tuple[IpuState, ProgramLedger], taker: tuple[IpuState, ProgramLedger], size_bytes: int, host: int) -> None:
        """A value that goes from an IPU, where a member made it, to another, where a member takes it."""
        for state, ledger in (giver, taker):
            self.members.setdefault(state, ledger)
        if taker[0] not in self.takers:
            self.takers.append(taker[0])
        way = giver[0].index, taker[0].index
        self.sizes[way] = self.sizes.get(way, 0) + size_bytes
        self.host = max(self.host, host)


_Ending = tuple[_Set, list[_Item]] | _Item | IpuState
Work = Run | Download | Pass


@final
class Play:
    """One playing of the work of a partition."""

    def __init__(
        self,
        machine: MachineSpec,
        execution: Execution,
        partition: Partition,
        copies: dict[Value, list[tuple[Value, int]]],
        loading: dict[int, tuple[Run, Part]],
    ) -> None:
        self._execution = execution
        self._members = partition.members
        self._copies = copies  # source -> (target, cycle at which the host asked)
        self._loading = loading
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

    def play(self, work: list[Work]) -> None:
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

    def _in_turn(self, work: list[Work]) -> None:
        """The same for one IPU, which waits for nobody."""
        for entry in work:
            if isinstance(entry, Run):
                (part,) = entry.parts
                part.ready = max((part.ready, *(value.off_chip_ready for value in part.awaits)))
                self._execution.at_once(entry)
                made = (*part.saved, *part.leaving)
            else:
                assert isinstance(entry, Download)  # one IPU passes nothing on
                self._execution.download(entry.value, entry.part, entry.ledger, 0, max(entry.host, entry.part.state.free))
                made = (entry.value,)
            for value in made:
                self._give(value)

    def _enqueue(self, entry: Work) -> None:
        for step, host in self._steps(entry):
            item = _Item(step, host)
            for part in step.parts:
                self._queues[part.state.index].append(item)
                if not step.takes_arguments:
                    continue
                for value in part.awaits:
                    if value.pending:
                        item.missing += 1
                        self._waiting.setdefault(value, []).append((item, part))
                    else:
                        part.ready = max(part.ready, value.off_chip_ready)
                part.awaits = []
                if not part.beside:
                    item.ready = max(item.ready, part.ready)

    def _steps(self, entry: Work) -> Iterator[tuple[Step, int]]:
        if isinstance(entry, Pass):
            for taker in entry.takers:
                run, part = self._loading.get(taker.index, (None, None))
                if run is not None and part is not None and not part.brought:  # what comes would be lost when another program is loaded
                    yield self._execution.bring(run, part), run.host
            parts = [Part(state) for state in entry.members]
            yield Step(partial(self._execution.pass_on, entry.sizes, entry.members), parts, "all"), entry.host
            return
        if isinstance(entry, Download):
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
