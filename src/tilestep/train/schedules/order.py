"""What each task of a schedule needs, and an order in which all of them can be done.

A schedule may have hundreds of thousands of tasks, each of which needs several others. A number stands for a task here, and what it needs
is found by arithmetic on that number: so no task is made anew to be looked up.
"""

from collections.abc import Iterable, Sequence
from typing import Final, final

from tilestep.train.schedules.tasks import OF_PARAMETERS, Kind, Task

_KINDS: Final = tuple(Kind)
_INDEX: Final = {kind: index for index, kind in enumerate(_KINDS)}
_F, _B, _I, _W, _U, _S, _L, _P, _Q = range(len(_KINDS))  # in the order of Kind
_NAMED: Final = 5  # devices that a message names at most


@final
class Dependencies:
    """The tasks as numbers: `kind * size + stage * microbatches + microbatch`, and behind these the updates for all microbatches.

    Loads and stores of parameters have no microbatch, and may be more than these. They come last, as `kind * moves + stage * most + number`
    with the two kinds as 0 and 1. They need nothing but what their device does before.

    Args:
        levels, microbatches, tasks, serial: those of a Schedule whose tasks are all there, on their devices.
    """

    def __init__(self, levels: Sequence[Sequence[int]], microbatches: int, tasks: Sequence[Sequence[Task]], *, serial: bool) -> None:
        stages = sum(map(len, levels))
        self._microbatches, self._serial = microbatches, serial
        self._size = stages * microbatches
        self._updates = _P * self._size  # the number of stage 0's update for all microbatches
        self._moves = self._updates + stages  # the number of stage 0's first load of parameters
        self._most = max(
            (1 + number for row in tasks for _, kind, number in row if kind in OF_PARAMETERS and number is not None), default=0
        )
        self._loads = stages * self._most
        self._first, self._last = levels[0], levels[-1]
        self._before: list[Sequence[int]] = []  # by stage, the level before; all stages of a level have one list
        self._after: list[Sequence[int]] = []
        for level, members in enumerate(levels):
            self._before += [levels[level - 1] if level else ()] * len(members)
            self._after += [levels[level + 1] if level + 1 < len(levels) else ()] * len(members)
        self._tasks = tasks
        self._numbers = [self._numbered(row) for row in tasks]
        self._present = bytearray(self._moves + 2 * self._loads)
        for row in self._numbers:
            for number in row:
                self._present[number] = 1
        self.training = 1 in self._present[_B * self._size : (_I + 1) * self._size]

    def _numbered(self, tasks: Iterable[Task]) -> list[int]:
        size, microbatches, updates = self._size, self._microbatches, self._updates
        return [
            updates + stage
            if microbatch is None
            else self._move(stage, kind, microbatch)
            if kind in OF_PARAMETERS
            else _INDEX[kind] * size + stage * microbatches + microbatch
            for stage, kind, microbatch in tasks
        ]

    def _move(self, stage: int, kind: Kind, number: int) -> int:
        return self._moves + (_INDEX[kind] - _P) * self._loads + stage * self._most + number

    def has(self, task: Task) -> bool:
        """Whether the schedule has a task of its stages and microbatches."""
        return bool(self._present[self._numbered([task])[0]])

    def stage(self, number: int) -> int:
        """Of the task with that number."""
        if number >= self._moves:
            return (number - self._moves) % self._loads // self._most
        return number - self._updates if number >= self._updates else number % self._size // self._microbatches

    def task(self, number: int) -> Task:
        """The task with that number."""
        if number >= self._moves:
            kind, slot = divmod(number - self._moves, self._loads)
            return Task(slot // self._most, _KINDS[_P + kind], slot % self._most)
        if number >= self._updates:
            return Task(number - self._updates, Kind.UPDATE)
        kind, slot = divmod(number, self._size)
        return Task(slot // self._microbatches, _KINDS[kind], slot % self._microbatches)

    def needs(self, task: Task) -> list[Task]:
        """What has to be done before a task, beside what its device does before."""
        return [self.task(need) for need in self.needed(self._numbered([task])[0])]

    def needed(self, number: int) -> list[int]:
        """The same with numbers."""
        if number >= self._moves:
            return []
        if number >= self._updates:
            begin = (number - self._updates) * self._microbatches
            return self._gradients(range(begin, begin + self._microbatches))
        kind, slot = divmod(number, self._size)
        if kind == _F:
            stage, microbatch = divmod(slot, self._microbatches)
            if self._before[stage]:
                return [other * self._microbatches + microbatch for other in self._before[stage]]
            return self._ends(microbatch - 1) if self._serial and microbatch else []
        if kind in (_B, _I):
            stage, microbatch = divmod(slot, self._microbatches)
            later = [self._either(_B, _I, other * self._microbatches + microbatch) for other in self._after[stage]]
            load = _L * self._size + slot
            return [slot, *later, load] if self._present[load] else [slot, *later]
        if kind == _U:
            return self._gradients((slot,))
        return [{_W: _I, _S: _F, _L: _S}[kind] * self._size + slot]

    def _either(self, whole: int, part: int, slot: int) -> int:
        number = whole * self._size + slot
        return number if self._present[number] else part * self._size + slot

    def _gradients(self, slots: Iterable[int]) -> list[int]:
        """What gives a stage's weight gradients."""
        return [self._either(_B, _W, slot) for slot in slots]

    def _ends(self, microbatch: int) -> list[int]:
        """The last tasks of a microbatch that others may wait for."""
        if self.training:
            return [self._either(_B, _I, stage * self._microbatches + microbatch) for stage in self._first]
        return [stage * self._microbatches + microbatch for stage in self._last]

    def order(self) -> tuple[tuple[Task, ...], tuple[int, ...]]:
        """All tasks in one order that agrees with every device's, and in which each comes after what it needs; and their numbers.

        There is one exactly if no timing can make the devices wait for each other for ever.
        Raises: ValueError if there is none.
        """
        tasks: list[Task] = []
        numbers: list[int] = []
        done = bytearray(len(self._present))
        waiting: dict[int, list[int]] = {}  # devices whose next task needs that one
        position = [0] * len(self._numbers)
        ready = list(range(len(self._numbers)))
        while ready:
            device = ready.pop()
            row = self._numbers[device]
            for index in range(position[device], len(row)):
                number = row[index]
                missing = next((need for need in self.needed(number) if not done[need]), None)
                if missing is not None:
                    position[device] = index
                    waiting.setdefault(missing, []).append(device)
                    break
                done[number] = 1
                tasks.append(self._tasks[device][index])
                numbers.append(number)
                if number in waiting:
                    ready.extend(waiting.pop(number))
        if waiting:
            stuck = [
                f"device {device} at {self._tasks[device][position[device]]} for {self.task(need)}"
                for need, devices in waiting.items()
                for device in devices
            ]
            others = f"; and {len(stuck) - _NAMED} others" if len(stuck) > _NAMED else ""
            raise ValueError(f"the devices would wait for each other for ever: {'; '.join(stuck[:_NAMED])}{others}")
        return tuple(tasks), tuple(numbers)
