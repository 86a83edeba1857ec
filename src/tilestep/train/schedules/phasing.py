"""Divides a schedule into phases, for devices that all wait while two of them exchange values.

On IPUs an exchange between two of them makes all wait: none computes meanwhile. So it matters which tasks are between two exchanges. A host
that starts tasks phase by phase, and copies after each phase, decides that.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

from tilestep.train.other_arguments import require_one_of
from tilestep.train.schedules.checks import WAYS, checked_costs, require_schedule
from tilestep.train.schedules.task_order import TaskOrder
from tilestep.train.schedules.tasks import OF_PARAMETERS, SLOTS, Costs, Kind, Task, Timeline

Phases = tuple[tuple[Task, ...], ...]


def phases(schedule: TaskOrder) -> Phases:
    """All tasks in phases, in an order that agrees with every device's.

    The tasks that a task needs are in earlier phases, or before it in the same phase on the same device. There are three ways to cut: a
    phase has one task of each device; or up to one forward and one backward of each device, which keeps all equally busy wherever the
    schedule is full; or up to one forward and one backward of each stage, which is the same for devices with several stages. It takes the
    fastest way, if backward takes twice as long as forward, and of equally fast ones that with the fewest phases. A device's last update is
    a phase later than what it follows: gradients for other devices pass on before it. So are loads and stores of parameters, with the
    updates between them.

    Args:
        schedule: the order of tasks on each device.

    Returns:
        For each phase its tasks.

    Raises:
        TypeError: for a schedule that is no Schedule.
    """
    require_schedule(schedule)
    cuts = [_in_pairs(schedule, of_stages=False), _by_slots(schedule)]
    if len(set(schedule.device_mapping)) < schedule.stages:
        cuts.append(_in_pairs(schedule, of_stages=True))
    best = min(cuts, key=lambda cut: (_Together(schedule, Costs(), cut, host="apart").timeline().makespan, len(cut)))
    return _last_updates_later(schedule, best)


def _last_updates_later(schedule: TaskOrder, ordered: Phases) -> Phases:
    """The phases with each device's closing updates a phase later, so that the gradients before them pass on while they run."""
    closing: set[Task] = set()
    for own in schedule.tasks:
        closing.update(itertools.takewhile(lambda task: task.kind is Kind.UPDATE, reversed(own)))
    later: list[list[Task]] = [[] for _ in range(len(ordered) + 1)]
    for index, phase in enumerate(ordered):
        for task in phase:
            later[index + (task in closing)].append(task)
    return tuple(tuple(phase) for phase in later if phase)


def updates_last(ordered: Phases) -> Phases:
    """The phases with all updates after everything else, in their order; stores of parameters and loads for an update stay with it."""
    every = [task for phase in ordered for task in phase]
    later = {task for task in every if task.kind in (Kind.UPDATE, Kind.STORE_PARAMETERS)}
    latest: dict[int, Task] = {}
    for task in every:
        before = latest.get(task.stage)
        if task.kind is Kind.UPDATE and before is not None and before.kind is Kind.LOAD_PARAMETERS:
            later.add(before)
        latest[task.stage] = task
    rest = tuple(tuple(task for task in phase if task not in later) for phase in ordered)
    return (*(phase for phase in rest if phase), tuple(task for task in every if task in later))


def _by_slots(schedule: TaskOrder) -> Phases:
    begin = schedule.with_free_links(SLOTS).begin
    slots: dict[float, list[Task]] = {}
    for task in schedule.ordered():
        slots.setdefault(begin[task], []).append(task)
    return tuple(tuple(slots[slot]) for slot in sorted(slots))


def _in_pairs(schedule: TaskOrder, *, of_stages: bool) -> Phases:
    position = [0] * len(schedule.tasks)
    done: set[Task] = set()
    pairs: list[tuple[Task, ...]] = []
    while any(index < len(own) for index, own in zip(position, schedule.tasks, strict=True)):
        now: list[Task] = []
        for device in range(len(position)):
            mine = list(_pair(schedule, device, position[device], done, of_stages=of_stages))
            position[device] += len(mine)
            now += mine
        done.update(now)
        pairs.append(tuple(now))
    return tuple(pairs)


def _pair(schedule: TaskOrder, device: int, position: int, done: set[Task], *, of_stages: bool) -> Iterator[Task]:
    """A device's next tasks, up to one forward and one backward, of each of its stages or altogether."""
    mine: set[Task] = set()
    passes: set[tuple[int, bool]] = set()
    for task in schedule.tasks[device][position:]:
        if passes and (task.kind in OF_PARAMETERS or (task.kind is Kind.UPDATE and schedule.loads_parameters)):
            return
        forward = task.kind is Kind.FORWARD
        if forward or task.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT):
            turn = (task.stage if of_stages else 0, forward)
            if turn in passes:
                return
            passes.add(turn)
        if not all(need in done or need in mine for need in schedule.needs(task)):
            return
        mine.add(task)
        yield task


def simulated_together(schedule: TaskOrder, costs: Costs, *, host: Literal["apart", "together"] = "apart") -> Timeline:
    """`Schedule.simulate` for devices that exchange together.

    An exchange is due when all devices that take part in it have come to it. It begins when no device is within a task. From the time at
    which it is due to its end no device begins a task. Exchanges that are due at the same time happen together.

    Args:
        schedule: the order of tasks on each device.
        costs: how long tasks and transfers take.
        host: "together": a transfer between a device and the host, such as of parameters, is such an exchange, by itself. "apart": it is
            not.

    Returns:
        The times of all tasks, in the unit of `costs`.

    Raises:
        TypeError: for a schedule that is no Schedule, and as `Schedule.simulate`.
        ValueError: as `Schedule.simulate`, and for another `host`.
    """
    require_schedule(schedule)
    require_one_of("host", host, WAYS)
    costs = checked_costs(costs, schedule.stages)
    return _Together(schedule, costs, phases(schedule), host=host).timeline()


@dataclass(kw_only=True, eq=False)
class _Exchange:
    """What devices pass on at the end of a phase; or what passes between one and the host, if all wait for that."""

    cost: float
    devices: set[int]
    missing: int  # devices that have not come to it
    with_host: bool = False
    task: Task | None = None  # task that it is, if it is one


@dataclass(frozen=True, kw_only=True)
class _Between:
    """What a device does beside its tasks: an element comes from the host, results are put together, or go to it."""

    cost: float
    with_host: bool  # whether it is the first or the last


_Item = Task | _Between | _Exchange


@final
class _Together:
    """An event loop over devices, each of which has a queue of what it does."""

    def __init__(self, schedule: TaskOrder, costs: Costs, ordered: Phases, *, host: Literal["apart", "together"]) -> None:
        self._schedule, self._costs, self._host = schedule, costs, host
        self._queues: list[deque[_Item]] = [deque() for _ in schedule.tasks]
        self._exchange_before: _Exchange | None = None
        for phase in ordered:
            self._enqueue(phase)
        for cost, with_host in ((costs.collect, False), (costs.results, True)):
            for device in {schedule.device_mapping[stage] for stage in schedule.levels[-1]} if cost else ():
                self._queues[device].append(self._with_host(device, cost) if with_host else _Between(cost=cost, with_host=False))
        self._events: list[tuple[float, int, tuple[int, ...], bool]] = []  # (time, serial, devices that are through, with an exchange)
        self._serial = itertools.count()
        self._within = 0  # devices in the middle of a task
        self._asked: list[_Exchange] = []
        self._over = 0.0  # when the exchange that goes on will be
        self._waiting: list[tuple[int, Task | _Between]] = []  # devices would begin these
        self._begin: dict[Task, float] = {}
        self._end: dict[Task, float] = {}

    def _enqueue(self, phase: Sequence[Task]) -> None:
        schedule, costs = self._schedule, self._costs
        devices: set[int] = set()
        longest = 0.0
        for task in phase:
            device = schedule.device(task)
            if costs.element and task.kind is Kind.FORWARD and task.stage in schedule.levels[0]:
                self._queues[device].append(self._with_host(device, costs.element))
            self._queues[device].append(self._moving(device, task) if task.kind in OF_PARAMETERS else task)
            for destination in schedule.takers(task):
                if schedule.device_mapping[destination] != device:
                    devices |= {device, schedule.device_mapping[destination]}
                    longest = max(longest, costs.passing(task.stage, destination))
        if any(self._cost(task) for task in phase):  # phases with nothing between them have one exchange
            self._exchange_before = None
        if not devices:
            return
        if self._exchange_before is None:
            self._exchange_before = _Exchange(cost=0.0, devices=set(), missing=0)
        for device in devices - self._exchange_before.devices:
            self._queues[device].append(self._exchange_before)
        self._exchange_before.devices |= devices
        self._exchange_before.missing = len(self._exchange_before.devices)
        self._exchange_before.cost = max(self._exchange_before.cost, longest)

    def _with_host(self, device: int, cost: float) -> _Between | _Exchange:
        if self._host == "apart":
            return _Between(cost=cost, with_host=True)
        self._exchange_before = None  # an exchange after it is one of its own
        return _Exchange(cost=cost, devices={device}, missing=1, with_host=True)

    def _moving(self, device: int, task: Task) -> Task | _Exchange:
        """A load or store of parameters."""
        if self._host == "apart" or not self._cost(task):
            return task
        self._exchange_before = None  # an exchange after it is one of its own
        return _Exchange(cost=self._cost(task), devices={device}, missing=1, with_host=True, task=task)

    def timeline(self) -> Timeline:
        """Plays all of it."""
        for device in range(len(self._queues)):
            self._come(device, 0.0)
        self._start(0.0)
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, _, devices, is_exchange = heapq.heappop(self._events)
                self._within -= not is_exchange
                for device in devices:
                    self._come(device, now)
            self._start(now)
        busy = [0.0] * len(self._queues)
        for task, end in self._end.items():
            busy[self._schedule.device(task)] += end - self._begin[task]
        makespan = max(self._end.values()) - min(self._begin.values())
        return Timeline(begin=self._begin, end=self._end, makespan=makespan, busy=tuple(busy), unit=self._costs.unit)

    def _come(self, device: int, now: float) -> None:
        """A device comes to what is next."""
        queue = self._queues[device]
        while queue:
            item = queue.popleft()
            if isinstance(item, _Exchange):
                item.missing -= 1
                if not item.missing:
                    self._asked.append(item)
                return
            if self._cost(item):
                self._waiting.append((device, item))
                return
            assert isinstance(item, Task)  # the others cost something
            self._begin[item] = self._end[item] = now

    def _cost(self, item: Task | _Between) -> float:
        return item.cost if isinstance(item, _Between) else self._costs.of(item.kind, item.stage)

    def _start(self, now: float) -> None:
        """What can begin does: exchanges first, all between devices together, then each with the host.

        Where the host is apart, what passes between it and a device waits only for an exchange that goes on.
        """
        if self._asked and not self._within and now >= self._over:
            begun = [exchange for exchange in self._asked if not exchange.with_host] or self._asked[:1]
            self._asked = [exchange for exchange in self._asked if exchange not in begun]
            self._over = now + max(exchange.cost for exchange in begun)
            for exchange in begun:
                if exchange.task is not None:
                    self._begin[exchange.task], self._end[exchange.task] = now, self._over
            self._push(self._over, tuple(itertools.chain.from_iterable(exchange.devices for exchange in begun)), is_exchange=True)
        if now < self._over:
            return
        waiting, self._waiting = self._waiting, []
        for device, item in waiting:
            if self._asked and not (isinstance(item, _Between) and item.with_host):
                self._waiting.append((device, item))
                continue
            end = now + self._cost(item)
            if isinstance(item, Task):
                self._begin[item], self._end[item] = now, end
            self._within += 1
            self._push(end, (device,), is_exchange=False)

    def _push(self, time: float, devices: tuple[int, ...], *, is_exchange: bool) -> None:
        heapq.heappush(self._events, (time, next(self._serial), devices, is_exchange))
