"""Plays the work of a program group in an event loop, because its runs hold each other up where its IPUs synchronise.

- A step within an IPU begins when all IPUs that take part have come to it.
- An access to the host is requested when its IPUs have come to it. It begins when all IPUs that wait for them are between two
  steps, and these stay there until it ends. Further requests of the same IPUs are served at the same time.
- An exchange between IPUs is the same, with all IPUs of the partition. If all its IPUs wait for each other at an access to the host anyhow,
  and others of the partition do not wait for them, it is such an access.
- An IPU that comes between two steps while a request is open waits.

A cycle has two rounds. First all IPUs arrive. Then the steps that can begin do, in the order of their requests. The number of
events of a step does not depend on the number of IPUs.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, final

from tilestep.machine.fields import SyncPattern
from tilestep.machine.spec import MachineSpec
from tilestep.sim.cycles.sync import host_set, sync_cycles
from tilestep.sim.runs.execute import Executor
from tilestep.sim.runs.run import ProgramRun, RunPart, RunStep, Share
from tilestep.sim.state.ledger import ProgramLedger
from tilestep.sim.state.residency import IpuState, SyncPartition, Value
from tilestep.sim.trace import NO_EVENT


@final
class _Item:
    """A step in the queues of its IPUs."""

    __slots__ = ("missing", "ready", "step")

    def __init__(self, step: RunStep, ready: int) -> None:
        self.step = step
        self.ready = ready  # cycle before which it cannot begin, as far as known
        self.missing = len(step.parts)  # IPUs that have not come to it, plus arguments whose cycle is not known


@final
class _Set:
    """IPUs that wait for each other: at an access to the host, or all of them at an exchange."""

    __slots__ = ("busy", "held", "parked", "requests", "until")

    def __init__(self) -> None:
        self.busy = 0  # IPUs in the middle of a step
        self.held = False  # while the access or exchange goes on that they wait for
        self.until = 0  # the latest end of that
        self.requests: list[_Item] = []
        self.parked: list[_Item] = []  # steps that would begin if no request were open


class Download(NamedTuple):
    """A value in SRAM goes to the host."""

    value: Value
    part: RunPart
    ledger: ProgramLedger
    host: int  # cycle at which the host has asked for it


@final
class Pass:
    """Values that go from some IPUs to others in one exchange."""

    __slots__ = ("destinations", "host", "members", "sizes")

    def __init__(self) -> None:
        self.members: dict[IpuState, ProgramLedger] = {}  # all that take part, and the program that made or takes their first value
        self.destinations: list[IpuState] = []
        self.sizes: dict[tuple[int, int], int] = {}  # (from, to) -> bytes
        self.host = 0  # cycle at which the host has asked for all of them

    def add(self, source: tuple[IpuState, ProgramLedger], destination: tuple[IpuState, ProgramLedger], size_bytes: int, host: int) -> None:
        """Adds a value that goes from one IPU, where a member made it, to another, where a member takes it."""
        for state, ledger in (source, destination):
            self.members.setdefault(state, ledger)
        if destination[0] not in self.destinations:
            self.destinations.append(destination[0])
        route = source[0].index, destination[0].index
        self.sizes[route] = self.sizes.get(route, 0) + size_bytes
        self.host = max(self.host, host)


_Ending = tuple[_Set, list[_Item]] | _Item | IpuState
Work = ProgramRun | Download | Pass


@final
class Play:
    """The event loop over the work of one partition.

    Args:
        copies: source -> (target, cycle at which the host has asked for it).
        loading: the first run on each IPU that loads another program.
        pattern: which IPUs wait for each other: that of the machine, or one under which more do.
    """

    def __init__(
        self,
        machine: MachineSpec,
        execution: Executor,
        partition: SyncPartition,
        copies: dict[Value, list[tuple[Value, int]]],
        loading: dict[int, tuple[ProgramRun, RunPart]],
        pattern: SyncPattern,
    ) -> None:
        self._execution = execution
        self._members = partition.members
        self._copies = dict(copies)
        self._loading = loading
        self._waiting: dict[Value, list[tuple[_Item, RunPart]]] = {}
        self._queues: dict[int, deque[_Item]] = {index: deque() for index in self._members}
        self._whole = _Set()
        self._together: dict[int, list[int]] = {}  # IPUs by the number of their set
        held: dict[int, _Set] = {}
        self._sets: dict[int, _Set] = {}  # by IPU
        together = partition.together(machine.num_simulated)
        self._is_alone = len(together) == 1
        for state in together:
            self._together.setdefault(state.host_set, []).append(state.index)
        for index in self._members:
            self._sets[index] = held.setdefault(host_set(machine, index, pattern), _Set())
        self._sync = {number: sync_cycles(machine, tuple(ipus)) for number, ipus in self._together.items()}
        self._has_sides = pattern == machine.sync_pattern == "replicaAndLadder" and len(held) > 1
        self._requesting: list[_Set] = []  # sets with open requests
        self._own: list[_Item] = []  # steps within an IPU that could begin now
        self._events: list[tuple[int, int, bool, _Ending]] = []  # (cycle, serial, whether something ends, what)
        self._serial = 0

    def play(self, work: list[Work]) -> None:
        """Moves the clocks of all members by `work`."""
        if self._is_alone:
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
                    self._request(what)
            self._begin(now)
        assert not any(self._queues.values()), "steps are left that wait for each other"
        for state in self._members.values():
            state.free = max(state.free, self._sets[state.index].until, self._whole.until)

    def _in_turn(self, work: list[Work]) -> None:
        """The same for one IPU, which waits for no other."""
        for entry in work:
            if isinstance(entry, ProgramRun):
                (part,) = entry.parts
                for value in part.awaits:
                    part.await_until(value)
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
                        part.await_until(value)
                part.awaits = []
                if not part.beside:
                    item.ready = max(item.ready, part.ready)

    def _steps(self, entry: Work) -> Iterator[tuple[RunStep, int]]:
        if isinstance(entry, Pass):
            for destination in entry.destinations:
                run, part = self._loading.get(destination.index, (None, None))
                if run is not None and part is not None and not part.brought:  # the values would be lost when its program is loaded
                    yield self._execution.bring(run, part), run.host
            parts = [RunPart(state) for state in entry.members]
            yield RunStep(partial(self._execution.pass_on, entry.sizes, entry.members), parts, "all"), entry.host
            return
        if isinstance(entry, Download):
            value, part, ledger, host = entry
            sync = self._sync[part.state.host_set]
            yield RunStep(partial(self._execution.download, value, part, ledger, sync), [part], "host", gives=[value]), host
            return
        by_set: dict[int, list[RunPart]] = {}
        for part in entry.parts:
            by_set.setdefault(part.state.host_set, []).append(part)
            part.beside = entry.prepared.num_io_tiles > 0 and len(self._together[part.state.host_set]) == 1
        shares = [Share(parts, self._sync[number]) for number, parts in by_set.items()]
        for step in self._execution.steps(entry, shares):
            yield step, entry.host

    def _push(self, cycle: int, what: _Ending, *, ends: bool) -> None:
        heapq.heappush(self._events, (cycle, self._serial, ends, what))
        self._serial += 1

    def _occupy(self, state: IpuState, change: int) -> None:
        self._sets[state.index].busy += change
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

    def _request(self, item: _Item) -> None:
        """Requests a step, once all its IPUs have come to it."""
        if item.step.scope == "own":
            self._own.append(item)
        elif item.step.scope == "all" and not self._on_one_side(item):
            self._whole.requests.append(item)
        else:
            waiting = self._sets[item.step.parts[0].state.index]
            if not waiting.requests:
                self._requesting.append(waiting)
            waiting.requests.append(item)

    def _on_one_side(self, item: _Item) -> bool:
        """Whether all IPUs of an exchange are in one set, of which there are several."""
        first, *others = (self._sets[part.state.index] for part in item.step.parts)  # one alone passes on to IPUs that are not simulated
        return self._has_sides and all(other is first for other in others)

    def _begin(self, now: int) -> None:
        """Begins all steps that can begin in cycle `now`."""
        whole = self._whole
        if whole.requests and not whole.busy and not whole.held:
            self._fire(whole, now)
        if self._requesting and not whole.held:
            ready = [waiting for waiting in self._requesting if not waiting.busy and not waiting.held]
            self._requesting = [waiting for waiting in self._requesting if waiting not in ready]
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
        """A set that a step within IPUs has to wait for, because it has open requests or is held."""
        sets = (self._whole, *(self._sets[part.state.index] for part in item.step.parts))
        return next((waiting for waiting in sets if waiting.held or waiting.requests), None)

    def _fire(self, waiting: _Set, now: int) -> None:
        items, waiting.requests = waiting.requests, []
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
        """Says that the cycle is known from which a value is available off the chip."""
        if not value.pending:
            return
        value.pending = False
        for target, host in self._copies.pop(value, ()):
            target.ready = target.host_ready = max(value.off_chip_ready, host)
            target.event = value.event if target.ready == value.off_chip_ready else NO_EVENT
            self._give(target)
        for item, part in self._waiting.pop(value, ()):
            part.await_until(value)
            if not part.beside:
                item.ready = max(item.ready, part.ready)
            self._less_missing(item)
