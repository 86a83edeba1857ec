"""The order of tasks on each device, and what follows from it alone."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilestep.train.schedules.checks import require_moves, require_shape, require_tasks
from tilestep.train.schedules.order import Dependencies
from tilestep.train.schedules.tasks import Costs, Kind, Task, Timeline, Weights


@dataclass(frozen=True, kw_only=True)
class TaskOrder:
    """What a `Schedule` is; see there."""

    name: str
    levels: tuple[tuple[int, ...], ...]
    device_mapping: tuple[int, ...]
    microbatches: int
    tasks: tuple[tuple[Task, ...], ...] = field(repr=False)  # show() has them
    weights: Weights = "same"
    serial: bool = False
    _level_of: Mapping[int, int] = field(init=False, repr=False, compare=False)
    _needs: Dependencies = field(init=False, repr=False, compare=False)
    _ordered: tuple[Task, ...] = field(init=False, repr=False, compare=False)
    _task_numbers: tuple[int, ...] = field(init=False, repr=False, compare=False)  # as Dependencies has them

    def __post_init__(self) -> None:
        require_shape(self.levels, self.device_mapping, self.microbatches, self.weights, devices=len(self.tasks))
        require_tasks(self.device_mapping, self.microbatches, self.tasks)
        require_moves(self.tasks, self.weights)
        object.__setattr__(self, "_level_of", {stage: level for level, stages in enumerate(self.levels) for stage in stages})
        object.__setattr__(self, "_needs", Dependencies(self.levels, self.microbatches, self.tasks, serial=self.serial))
        ordered, numbers = self._needs.order()
        object.__setattr__(self, "_ordered", ordered)
        object.__setattr__(self, "_task_numbers", numbers)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.device_mapping)

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return self._needs.training

    @functools.cached_property
    def loads_parameters(self) -> frozenset[int]:
        """The stages whose parameters are loaded by tasks of their own."""
        return frozenset(task.stage for row in self.tasks for task in row if task.kind is Kind.LOAD_PARAMETERS)

    def device(self, task: Task) -> int:
        """The number of the device that does a task."""
        return self.device_mapping[task.stage]

    def needs(self, task: Task) -> Iterator[Task]:
        """The tasks that must be done before a task, beside those that its device does before."""
        return iter(self._needs.needs(task))

    def takers(self, task: Task) -> tuple[int, ...]:
        """The stages that get a task's results: outputs, or gradients of its inputs."""
        level = self._level_of[task.stage]
        match task.kind:
            case Kind.FORWARD:
                return self.levels[level + 1] if level + 1 < len(self.levels) else ()
            case Kind.BACKWARD | Kind.INPUT_GRADIENT:
                return self.levels[level - 1] if level else ()
            case _:
                return ()

    def ordered(self) -> tuple[Task, ...]:
        """All tasks in one order that agrees with every device's, and in which each comes after what it needs."""
        return self._ordered

    def with_free_links(self, costs: Costs) -> Timeline:
        """When each task happens if every device begins its next one as soon as it can, and no other waits for what it passes on."""
        begin: dict[Task, float] = {}
        end: dict[Task, float] = {}
        ends: dict[int, float] = {}  # by the tasks' numbers
        cost_of, passing = functools.cache(costs.of), functools.cache(costs.passing)
        free = [0.0] * len(self.tasks)
        busy = [0.0] * len(self.tasks)
        for task, number in zip(self._ordered, self._task_numbers, strict=True):
            device = self.device(task)
            start = free[device]
            for need in self._needs.needed(number):
                source = self._needs.stage(need)
                start = max(start, ends[need] + (passing(source, task.stage) if self.device_mapping[source] != device else 0.0))
            if costs.element and task.kind is Kind.FORWARD and self._level_of[task.stage] == 0:
                start += costs.element
            cost = cost_of(task.kind, task.stage)
            begin[task] = start
            end[task] = ends[number] = start + cost
            free[device] = start + cost
            busy[device] += cost
        first = min(begin.values(), default=0.0)
        return Timeline(begin=begin, end=end, makespan=max(end.values(), default=0.0) - first, busy=tuple(busy), unit=costs.unit)

    def stash(self) -> tuple[int, ...]:
        """For each stage the largest number of microbatches whose values it keeps for backward, with any timing. 0 in inference."""
        peaks = [0] * self.stages
        held = [0] * self.stages
        if not self.training:
            return tuple(peaks)
        whole = [self._needs.has(Task(stage, Kind.BACKWARD, 0)) for stage in range(self.stages)]
        for tasks in self.tasks:
            for task in tasks:
                frees = Kind.BACKWARD if whole[task.stage] else Kind.WEIGHT_GRADIENT
                if task.kind in (Kind.FORWARD, Kind.LOAD):
                    held[task.stage] += 1
                    peaks[task.stage] = max(peaks[task.stage], held[task.stage])
                elif task.kind in (frees, Kind.STORE):
                    held[task.stage] -= 1
        return tuple(peaks)

    def versions(self) -> Mapping[Task, int]:
        """For each forward or backward task the number of updates that its weights have had in this run."""
        versions: dict[Task, int] = {}
        updates = [0] * self.stages
        for tasks in self.tasks:
            for task in tasks:
                if task.kind is Kind.UPDATE:
                    updates[task.stage] += 1
                elif task.kind is Kind.FORWARD or self.weights != "stashed":
                    versions[task] = updates[task.stage]
                else:
                    versions[task] = versions[Task(task.stage, Kind.FORWARD, task.microbatch)]
        return versions
