"""In which order a program's units run, so that the tiles hold as little as possible at the worst moment.

XLA's order is a depth-first walk from the results: values that several results need are made early and wait. Four more orders are
tried. In list scheduling a task that frees as much memory as it takes runs as soon as it can, and any other task waits until no such task
is ready. It runs forwards, backwards from the end, and forwards again with the backward order as the rule for ties. In the fourth order,
forwards too, what runs for one result alone is one task. The product that makes a weight's gradient takes memory, and with the addition
to an accumulator it frees memory. The order with the smallest peak wins, and the program's own order wins ties, so the result is never
worse than the program's own.

Then a beam search orders the tasks around the peak anew, as long as that makes the peak smaller. The beam keeps one state for each set
of tasks that have run, because the memory in use after them depends on the set alone.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

WIDTH: Final = 16  # states that the beam keeps
WINDOW: Final = 24  # tasks that the beam orders at once
MOST_BEAM_ROUNDS: Final = 64


@dataclass(frozen=True, kw_only=True)
class MemoryTask:
    """One unit as memory sees it.

    Attributes:
        reads: numbers of the values that it reads, each once.
        makes: numbers of the values that it makes; no other task makes them.
        after: numbers of tasks that have to run before it although it reads nothing of them.
        in_place: whether a value that it makes may take the memory of a value that it reads last.
    """

    reads: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    in_place: bool = False


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """A program's units in the program's order, and the values between them."""

    tasks: tuple[MemoryTask, ...]  # each follows the tasks that it needs
    sizes: tuple[int, ...]  # for each value, in bytes
    kept: frozenset[int] = frozenset()  # values that stay to the end

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Of each value, the tasks that read it."""
        readers: list[list[int]] = [[] for _ in self.sizes]
        for number, task in enumerate(self.tasks):
            for value in task.reads:
                readers[value].append(number)
        return tuple(map(tuple, readers))

    @cached_property
    def needs(self) -> tuple[frozenset[int], ...]:
        """Of each task, the tasks that have to run before it."""
        makers = {value: number for number, task in enumerate(self.tasks) for value in task.makes}
        return tuple(
            frozenset((*(makers[value] for value in task.reads if value in makers), *task.after)) - {number}
            for number, task in enumerate(self.tasks)
        )

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """Of each task, the tasks that have to run after it."""
        users: list[list[int]] = [[] for _ in self.tasks]
        for number, needs in enumerate(self.needs):
            for other in needs:
                users[other].append(number)
        return tuple(map(tuple, users))

    @cached_property
    def made_bytes(self) -> tuple[int, ...]:
        """Of each task, the bytes of the values that it makes."""
        return tuple(sum(self.sizes[value] for value in task.makes) for task in self.tasks)

    @cached_property
    def idle_bytes(self) -> tuple[int, ...]:
        """Of each task, the bytes of the values that it makes and that are gone after it, because nothing reads them."""
        gone = [value not in self.kept and not readers for value, readers in enumerate(self.readers)]
        return tuple(sum(self.sizes[value] for value in task.makes if gone[value]) for task in self.tasks)


def smallest_peak(tasks: Tasks, *, enough_bytes: int = 0) -> list[int]:
    """An order of the tasks with a small peak, never a larger one than that of the program's order.

    Args: enough_bytes: with a peak of no more than that the program's order stays, and the search ends.
    Returns: the numbers of the tasks, each behind those that it needs.
    """
    best = list(range(len(tasks.tasks)))
    peak = peak_bytes(tasks, best)
    if peak <= enough_bytes:
        return best
    backwards = _from_the_end(tasks)
    for order in (_from_the_start(tasks, best), backwards, _from_the_start(tasks, _ranks(backwards)), _by_results(tasks)):
        if (other := peak_bytes(tasks, order)) < peak:
            best, peak = order, other
    for _ in range(MOST_BEAM_ROUNDS):
        better = _around_the_peak(tasks, best) if peak > enough_bytes else None
        if better is None:
            break
        best, peak = better, peak_bytes(tasks, better)
    return best


def peak_bytes(tasks: Tasks, order: Iterable[int]) -> int:
    """The most bytes in use during any task. Values that no task makes do not count."""
    return max(_heights(tasks, order), default=0)


def _heights(tasks: Tasks, order: Iterable[int]) -> list[int]:
    """Bytes in use during each task of an order."""
    left = [len(readers) for readers in tasks.readers]
    made = {value for task in tasks.tasks for value in task.makes}
    heights: list[int] = []
    used = 0
    for number in order:
        task = tasks.tasks[number]
        dying: list[int] = []
        for value in task.reads:
            left[value] -= 1
            if not left[value] and value in made and value not in tasks.kept:
                dying.append(tasks.sizes[value])
        heights.append(used + tasks.made_bytes[number] - _reused_bytes(tasks, task, dying))
        used += tasks.made_bytes[number] - tasks.idle_bytes[number] - sum(dying)
    return heights


def _reused_bytes(tasks: Tasks, task: MemoryTask, dying: Sequence[int]) -> int:
    """Bytes that a task makes in the memory of values that it reads last. Args: dying: the sizes of those values."""
    if not task.in_place or not dying:
        return 0
    room = sorted(dying)
    reused = 0
    for size in sorted((tasks.sizes[value] for value in task.makes), reverse=True):
        if room and room[-1] >= size:
            room.pop()
            reused += size
    return reused


def _ranks(order: Sequence[int]) -> list[int]:
    ranks = [0] * len(order)
    for rank, number in enumerate(order):
        ranks[number] = rank
    return ranks


class _Ready:
    """Tasks that may run next: first those that free at least as much memory as they take, then by rank."""

    def __init__(self, growth: list[int], ranks: Sequence[int]) -> None:
        self._growth, self._ranks = growth, ranks
        self._heaps: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
        self._is_ready = [False] * len(growth)
        self._is_done = [False] * len(growth)

    def add(self, number: int) -> None:
        """A task is ready."""
        self._is_ready[number] = True
        heapq.heappush(self._heaps[self._growth[number] > 0], (self._ranks[number], number))

    def shrink(self, number: int, size_bytes: int) -> None:
        """A task, ready or not, now frees so much more, or takes so much less."""
        before = self._growth[number]
        self._growth[number] = before - size_bytes
        if self._is_ready[number] and not self._is_done[number] and before > 0 >= self._growth[number]:
            self.add(number)

    def take(self) -> int:
        """The next task."""
        while True:
            _, number = heapq.heappop(self._heaps[0] or self._heaps[1])
            if not self._is_done[number]:  # a task whose growth has changed is in both heaps
                self._is_done[number] = True
                return number


def _from_the_start(tasks: Tasks, ranks: Sequence[int]) -> list[int]:
    """List scheduling. Args: ranks: the rule for ties; the smallest first."""
    left = [len(readers) for readers in tasks.readers]
    freed = [size if value not in tasks.kept else 0 for value, size in enumerate(tasks.sizes)]
    growth = [made - idle for made, idle in zip(tasks.made_bytes, tasks.idle_bytes, strict=True)]
    for value, readers in enumerate(tasks.readers):
        if len(readers) == 1:
            growth[readers[0]] -= freed[value]
    ready = _Ready(growth, ranks)
    waits = [len(needs) for needs in tasks.needs]
    for number, count in enumerate(waits):
        if not count:
            ready.add(number)
    order: list[int] = []
    is_done = [False] * len(waits)
    for _ in waits:
        number = ready.take()
        order.append(number)
        is_done[number] = True
        for value in tasks.tasks[number].reads:
            left[value] -= 1
            if left[value] == 1 and freed[value]:
                ready.shrink(next(reader for reader in tasks.readers[value] if not is_done[reader]), freed[value])
        for user in tasks.users[number]:
            waits[user] -= 1
            if not waits[user]:
                ready.add(user)
    return order


def _by_results(tasks: Tasks) -> list[int]:
    """List scheduling where a task that makes results, and all that runs for it alone, are one task."""
    is_result = [bool(task.makes) and tasks.kept.issuperset(task.makes) for task in tasks.tasks]
    end = list(range(len(tasks.tasks)))  # task -> the last of those that are one with it
    for number in reversed(range(len(end))):
        users = {end[user] for user in tasks.users[number]}
        if len(users) == 1 and not is_result[number] and is_result[max(users)]:
            end[number] = max(users)
    members: dict[int, list[int]] = {}
    for number, last in enumerate(end):
        members.setdefault(last, []).append(number)
    groups = [members[last] for last in sorted(members)]
    group_of = {number: index for index, group in enumerate(groups) for number in group}
    joined: list[MemoryTask] = []
    sizes = list(tasks.sizes)
    for index, group in enumerate(groups):
        own = [tasks.tasks[number] for number in group]
        makes = [value for task in own for value in task.makes]
        for value in makes:
            if value not in tasks.kept and all(group_of[reader] == index for reader in tasks.readers[value]):
                sizes[value] = 0  # it is gone behind the last of them
        reads = dict.fromkeys(value for task in own for value in task.reads if value not in makes)
        after = {group_of[need] for number in group for need in tasks.needs[number]} - {index}
        joined.append(MemoryTask(reads=tuple(reads), makes=tuple(makes), after=tuple(sorted(after))))
    order = _from_the_start(Tasks(tasks=tuple(joined), sizes=tuple(sizes), kept=tasks.kept), range(len(groups)))
    return [number for index in order for number in groups[index]]


def _from_the_end(tasks: Tasks) -> list[int]:
    """List scheduling of the program backwards, where a task takes memory for what it reads and frees that of what it makes."""
    is_there = [value in tasks.kept for value in range(len(tasks.sizes))]
    growth = [
        sum(tasks.sizes[value] for value in task.reads if not is_there[value]) - made + idle
        for task, made, idle in zip(tasks.tasks, tasks.made_bytes, tasks.idle_bytes, strict=True)
    ]
    ready = _Ready(growth, range(0, -len(growth), -1))
    waits = [len(users) for users in tasks.users]
    for number, count in enumerate(waits):
        if not count:
            ready.add(number)
    order: list[int] = []
    for _ in waits:
        number = ready.take()
        order.append(number)
        for value in tasks.tasks[number].reads:
            if not is_there[value]:
                is_there[value] = True
                for reader in tasks.readers[value]:
                    ready.shrink(reader, tasks.sizes[value])
        for need in tasks.needs[number]:
            waits[need] -= 1
            if not waits[need]:
                ready.add(need)
    order.reverse()
    return order


def _around_the_peak(tasks: Tasks, order: Sequence[int]) -> list[int] | None:
    """An order that differs only near the first peak, and is lower there; None if the beam finds none."""
    heights = _heights(tasks, order)
    peak = max(heights)
    at = heights.index(peak)
    for start in (at - WINDOW // 2, at - WINDOW + 2, at - 1):
        first = max(0, min(start, len(order) - WINDOW))
        window = _beam(tasks, order[:first], order[first : first + WINDOW], peak)
        if window is not None:
            return [*order[:first], *window, *order[first + len(window) :]]
    return None


_Path = tuple["_Path", int] | None


def _beam(tasks: Tasks, before: Sequence[int], window: Sequence[int], bound: int) -> list[int] | None:
    """The tasks of a window in the order with the smallest peak that the beam finds; None if none is below `bound`.

    Args: before: the tasks that have run.
    """
    left = [len(readers) for readers in tasks.readers]
    made = {value for task in tasks.tasks for value in task.makes}
    used = 0
    for number in before:
        for value in tasks.tasks[number].reads:
            left[value] -= 1
            if not left[value] and value in made and value not in tasks.kept:
                used -= tasks.sizes[value]
        used += tasks.made_bytes[number] - tasks.idle_bytes[number]
    bits = {number: 1 << place for place, number in enumerate(window)}
    needs = [sum(bits[need] for need in tasks.needs[number] if need in bits) for number in window]
    reading: dict[int, int] = {}
    for number in window:
        for value in tasks.tasks[number].reads:
            reading[value] = reading.get(value, 0) | bits[number]
    dying: list[list[tuple[int, int]]] = [[] for _ in window]  # task -> (readers, size) of the values that it may read last
    for value, readers in reading.items():
        if value in made and value not in tasks.kept and readers.bit_count() == left[value]:
            for place, number in enumerate(window):
                if readers & bits[number]:
                    dying[place].append((readers, tasks.sizes[value]))
    states: dict[int, tuple[int, int, _Path]] = {0: (0, used, None)}  # tasks that have run -> (peak, bytes in use, how)
    for _ in window:
        new: dict[int, tuple[int, int, _Path]] = {}
        for done, (peak, used, path) in states.items():
            for place, number in enumerate(window):
                bit = 1 << place
                if done & bit or needs[place] & ~done:
                    continue
                after = done | bit
                freed = [size for readers, size in dying[place] if not readers & ~after]
                height = used + tasks.made_bytes[number] - _reused_bytes(tasks, tasks.tasks[number], freed)
                height = max(height, peak)
                known = new.get(after)
                if height < bound and (known is None or height < known[0]):
                    new[after] = height, used + tasks.made_bytes[number] - tasks.idle_bytes[number] - sum(freed), (path, place)
        if not new:
            return None
        states = new if len(new) <= WIDTH else dict(heapq.nsmallest(WIDTH, new.items(), key=lambda state: state[1][:2]))
    ((_, _, path),) = states.values()
    order: list[int] = []
    while path is not None:
        path, place = path  # pyrefly: ignore[not-iterable]
        order.append(window[place])
    order.reverse()
    return order
