"""Schedules of pipelines as data: which device does which task after which.

A schedule says for each device in what order it does its tasks. Together with what each task needs, that is all: when a task begins
follows from how long tasks take. `schedules.py` makes the usual ones.
"""

from __future__ import annotations

import csv
import enum
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple, final

_TASK: Final = re.compile(r"(\d+)([FBIWUSL])(\d*)")

Weights = Literal["same", "stale", "stashed"]


class Kind(enum.StrEnum):
    """What a task does. The letters are those of PyTorch's schedules where it has them."""

    FORWARD = "F"
    BACKWARD = "B"  # gradients of the inputs and of the weights
    INPUT_GRADIENT = "I"  # of the inputs alone
    WEIGHT_GRADIENT = "W"  # of the weights alone, after that of the inputs
    UPDATE = "U"  # the optimiser
    STORE = "S"  # what the backward needs goes to another memory
    LOAD = "L"  # and comes back

    @property
    def meaning(self) -> str:
        """In words, such as "input gradient"."""
        return self.name.lower().replace("_", " ")


class Task(NamedTuple):
    """One thing that one device does. Written as "2F3": stage 2, forward, microbatch 3; "2U": the update at the end of a run.

    Attributes: microbatch: None for an update that is for all microbatches.
    """

    stage: int
    kind: Kind
    microbatch: int | None = None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{'' if self.microbatch is None else self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """The task that `str` wrote. Raises: ValueError for any other text."""
        found = _TASK.fullmatch(text.strip())
        if found is None or (found[3] == "" and found[2] != Kind.UPDATE):
            raise ValueError(f"{text!r} is no task: it must be a stage, one of F B I W U S L, and a microbatch, such as 2F3; 2U is allowed")
        return cls(int(found[1]), Kind(found[2]), int(found[3]) if found[3] else None)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """How long tasks take, in one unit of time: a number for all stages, or a sequence with one for each.

    Attributes:
        backward: None: twice `forward`.
        input_gradient: None: half of `backward`.
        weight_gradient: None: what `backward` is more than `input_gradient`.
        update: of a stage.
        store, load: of what a microbatch leaves on a stage.
        transfer: of a stage's outputs to another device.
        gradient_transfer: of the gradients of a stage's outputs, from another device. None: as `transfer`.
        element: of what comes from the host for each forward of a first stage, just before it. The device waits for it.
        collect: of putting together what a last stage returned of all microbatches, after its last task.
        results: of that to the host.
    """

    forward: float | Sequence[float] = 1.0
    backward: float | Sequence[float] | None = None
    input_gradient: float | Sequence[float] | None = None
    weight_gradient: float | Sequence[float] | None = None
    update: float | Sequence[float] = 0.0
    store: float | Sequence[float] = 0.0
    load: float | Sequence[float] = 0.0
    transfer: float | Sequence[float] = 0.0
    gradient_transfer: float | Sequence[float] | None = None
    element: float = 0.0
    collect: float = 0.0
    results: float = 0.0

    def of(self, kind: Kind, stage: int) -> float:
        """How long a task takes. Raises: IndexError if a sequence has none for that stage."""

        def at(value: float | Sequence[float]) -> float:
            return value[stage] if isinstance(value, Sequence) else value

        def backward() -> float:
            return 2 * at(self.forward) if self.backward is None else at(self.backward)

        def input_gradient() -> float:
            return backward() / 2 if self.input_gradient is None else at(self.input_gradient)

        match kind:
            case Kind.FORWARD:
                return at(self.forward)
            case Kind.BACKWARD:
                return backward()
            case Kind.INPUT_GRADIENT:
                return input_gradient()
            case Kind.WEIGHT_GRADIENT:
                return backward() - input_gradient() if self.weight_gradient is None else at(self.weight_gradient)
            case Kind.UPDATE:
                return at(self.update)
            case Kind.STORE:
                return at(self.store)
            case Kind.LOAD:
                return at(self.load)

    def passing(self, giver: int, taker: int) -> float:
        """How long it takes until one stage has what another one made for it: outputs of an earlier stage, gradients of a later one."""
        back = self.gradient_transfer if giver > taker and self.gradient_transfer is not None else self.transfer
        return back[min(giver, taker)] if isinstance(back, Sequence) else back


SLOTS: Final = Costs(forward=1, backward=1, input_gradient=1, weight_gradient=1)  # every task that computes takes one slot


@final
@dataclass(frozen=True, kw_only=True)
class Timeline:
    """When the tasks of a schedule happen, if they take so long.

    Attributes:
        begin: of each task, from the first one's on.
        end: of each task.
        makespan: from the first task's begin to the last one's end.
        busy: of each device, how long it does something.
    """

    begin: Mapping[Task, float]
    end: Mapping[Task, float]
    makespan: float
    busy: tuple[float, ...]

    @property
    def bubble(self) -> float:
        """The part of all devices' time in which they wait, from 0 to 1."""
        return 1 - sum(self.busy) / (len(self.busy) * self.makespan) if self.makespan else 0.0


@final
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The order of tasks on each device.

    Attributes:
        name: for messages and pictures.
        levels: the stages in the order in which data passes through them; those of one level are concurrent: all of them get what the
            level before made. Stages are numbered from 0 on, level by level.
        device_mapping: each stage's device, devices being numbered from 0 on.
        microbatches: of one run.
        tasks: of each device, in its order.
        weights: what backward computes with, where weights change within a run. "same": they don't. "stale": with the newest, whatever
            forward had. "stashed": with those that forward had.
        serial: whether a microbatch begins only when the one before has passed through all stages.
    Raises: ValueError if a task is missing, there twice or on another device than its stage, or if the order can never be followed.
    """

    name: str
    levels: tuple[tuple[int, ...], ...]
    device_mapping: tuple[int, ...]
    microbatches: int
    tasks: tuple[tuple[Task, ...], ...] = field(repr=False)  # show() has them
    weights: Weights = "same"
    serial: bool = False
    _level_of: Mapping[int, int] = field(init=False, repr=False, compare=False)
    _ordered: tuple[tuple[Task, tuple[Task, ...]], ...] = field(init=False, repr=False, compare=False)  # each task, and what it needs

    def __post_init__(self) -> None:
        object.__setattr__(self, "_level_of", {stage: level for level, stages in enumerate(self.levels) for stage in stages})
        if [stage for stages in self.levels for stage in stages] != list(range(len(self.device_mapping))):
            raise ValueError(
                f"levels {self.levels} must number the {len(self.device_mapping)} stages of device_mapping from 0 on, in order"
            )
        if any(not 0 <= device < len(self.tasks) for device in self.device_mapping):
            raise ValueError(f"device_mapping {list(self.device_mapping)} names a device that has no tasks: there are {len(self.tasks)}")
        if self.microbatches < 1:
            raise ValueError(f"microbatches is {self.microbatches}: it must be 1 or more")
        self._check_tasks()
        object.__setattr__(self, "_ordered", tuple(self._in_order()))

    # -------------------------------------------------------------------------------------------------- what there is

    @property
    def stages(self) -> int:
        """How many."""
        return len(self.device_mapping)

    @cached_property
    def _all(self) -> frozenset[Task]:
        return frozenset(task for tasks in self.tasks for task in tasks)

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return any(task.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT) for task in self._all)

    def device(self, task: Task) -> int:
        """Which one does it."""
        return self.device_mapping[task.stage]

    def needs(self, task: Task) -> Iterator[Task]:
        """What has to be done before a task, beside what its device does before."""
        stage, kind, microbatch = task
        match kind:
            case Kind.FORWARD:
                assert microbatch is not None  # only updates have none
                level = self._level_of[stage]
                if level:
                    yield from (Task(before, kind, microbatch) for before in self.levels[level - 1])
                elif self.serial and microbatch:
                    yield from self._ends(microbatch - 1)
            case Kind.BACKWARD | Kind.INPUT_GRADIENT:
                yield Task(stage, Kind.FORWARD, microbatch)
                for after in self._after(stage):
                    yield self._backward(after, microbatch)
                if (load := Task(stage, Kind.LOAD, microbatch)) in self._all:
                    yield load
            case Kind.WEIGHT_GRADIENT:
                yield Task(stage, Kind.INPUT_GRADIENT, microbatch)
            case Kind.UPDATE:
                every = range(self.microbatches) if microbatch is None else (microbatch,)
                yield from (self._gradients(stage, number) for number in every)
            case Kind.STORE:
                yield Task(stage, Kind.FORWARD, microbatch)
            case Kind.LOAD:
                yield Task(stage, Kind.STORE, microbatch)

    def takers(self, task: Task) -> tuple[int, ...]:
        """The stages that get what a task makes: outputs, or gradients of its inputs."""
        match task.kind:
            case Kind.FORWARD:
                return self._after(task.stage)
            case Kind.BACKWARD | Kind.INPUT_GRADIENT:
                level = self._level_of[task.stage]
                return self.levels[level - 1] if level else ()
            case _:
                return ()

    def _after(self, stage: int) -> tuple[int, ...]:
        level = self._level_of[stage] + 1
        return self.levels[level] if level < len(self.levels) else ()

    def _backward(self, stage: int, microbatch: int | None) -> Task:
        """What gives a stage's input gradients."""
        whole = Task(stage, Kind.BACKWARD, microbatch)
        return whole if whole in self._all else Task(stage, Kind.INPUT_GRADIENT, microbatch)

    def _gradients(self, stage: int, microbatch: int) -> Task:
        """What gives a stage's weight gradients."""
        whole = Task(stage, Kind.BACKWARD, microbatch)
        return whole if whole in self._all else Task(stage, Kind.WEIGHT_GRADIENT, microbatch)

    def _ends(self, microbatch: int) -> Iterator[Task]:
        """The last tasks of a microbatch that others may wait for."""
        if self.training:
            return (self._backward(stage, microbatch) for stage in self.levels[0])
        return (Task(stage, Kind.FORWARD, microbatch) for stage in self.levels[-1])

    # ------------------------------------------------------------------------------------------------------- checks

    def _check_tasks(self) -> None:
        for device, tasks in enumerate(self.tasks):
            for task in tasks:
                if not 0 <= task.stage < self.stages:
                    raise ValueError(f"device {device} has task {task}, but there are {self.stages} stages, from 0 on")
                if self.device(task) != device:
                    raise ValueError(f"device {device} has task {task}, but stage {task.stage} is on device {self.device(task)}")
                if task.microbatch is not None and task.microbatch >= self.microbatches:
                    raise ValueError(f"device {device} has task {task}, but there are {self.microbatches} microbatches, from 0 on")
        twice = [str(task) for task, count in Counter(task for tasks in self.tasks for task in tasks).items() if count > 1]
        if twice:
            raise ValueError(f"there is more than one of {', '.join(twice[:5])}: each task is done once")
        present = self._all
        missing = [task for task in self._wanted(present) if task not in present]
        if missing:
            raise ValueError(f"task {missing[0]} is missing" + (f", and {len(missing) - 1} others" if len(missing) > 1 else ""))

    def _wanted(self, present: frozenset[Task]) -> Iterator[Task]:
        """What must be there, given what is."""
        training, updates = self.training, any(task.kind is Kind.UPDATE for task in present)
        for stage in range(self.stages):
            split = any(Task(stage, Kind.INPUT_GRADIENT, number) in present for number in range(self.microbatches))
            for number in range(self.microbatches):
                yield Task(stage, Kind.FORWARD, number)
                if training:
                    parts = (Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT) if split else (Kind.BACKWARD,)
                    yield from (Task(stage, part, number) for part in parts)
                if Task(stage, Kind.STORE, number) in present or Task(stage, Kind.LOAD, number) in present:
                    yield from (Task(stage, kind, number) for kind in (Kind.STORE, Kind.LOAD))
            if updates and Task(stage, Kind.UPDATE) not in present:
                yield from (Task(stage, Kind.UPDATE, number) for number in range(self.microbatches))

    def _in_order(self) -> Iterator[tuple[Task, tuple[Task, ...]]]:
        """All tasks with what they need, in one order that agrees with every device's, and in which each comes after that.

        There is one exactly if no timing can make the devices wait for each other for ever.
        Raises: ValueError if there is none.
        """
        done: set[Task] = set()
        waiting: dict[Task, list[int]] = {}  # devices whose next task needs it
        position = [0] * len(self.tasks)
        ready = list(range(len(self.tasks)))
        while ready:
            device = ready.pop()
            while position[device] < len(self.tasks[device]):
                task = self.tasks[device][position[device]]
                needs = tuple(self.needs(task))
                if not done.issuperset(needs):
                    waiting.setdefault(next(need for need in needs if need not in done), []).append(device)
                    break
                yield task, needs
                done.add(task)
                position[device] += 1
                ready.extend(waiting.pop(task, ()))
        if waiting:
            stuck = [
                f"device {device} at {self.tasks[device][position[device]]} for {task}" for task, ds in waiting.items() for device in ds
            ]
            raise ValueError(f"the devices would wait for each other for ever: {'; '.join(stuck)}")

    def ordered(self) -> tuple[Task, ...]:
        """All tasks in one order that agrees with every device's, and in which each comes after what it needs."""
        return tuple(task for task, _ in self._ordered)

    # ------------------------------------------------------------------------------------------------ what comes of it

    def simulate(
        self,
        costs: Costs = Costs(),
        *,
        exchanges: Literal["apart", "together"] = "apart",
        host: Literal["apart", "together"] = "apart",
    ) -> Timeline:
        """When each task happens if every device begins its next one as soon as it can.

        Args:
            exchanges: "apart": what a task made goes to another device when it is over, and nobody else is held up. "together": it goes at
                the end of the task's phase, when no device is within a task, and all of them wait until it is over: what IPUs do
                (docs/pipelines.md).
            host: what passes between a device and the host, likewise; "together" is the sync pattern `full`, and needs such exchanges.
        Raises: ValueError for `host` alone together, if `costs` has a sequence of another length than there are stages, or a time below 0.
        """
        self._check_costs(costs)
        if exchanges == "together":
            from tilestep.train.schedule_phases import simulated_together

            return simulated_together(self, costs, host=host)
        if host == "together":
            raise ValueError(
                'host is "together", but exchanges is "apart": devices that wait for each other\'s host do so for exchanges, too'
            )
        begin: dict[Task, float] = {}
        end: dict[Task, float] = {}
        free = [0.0] * len(self.tasks)
        busy = [0.0] * len(self.tasks)
        for task, needs in self._ordered:
            device = self.device(task)
            start = free[device]
            for need in needs:
                start = max(start, end[need] + (costs.passing(need.stage, task.stage) if self.device(need) != device else 0.0))
            if costs.element and task.kind is Kind.FORWARD and self._level_of[task.stage] == 0:
                start += costs.element
            cost = costs.of(task.kind, task.stage)
            begin[task], end[task] = start, start + cost
            free[device] = start + cost
            busy[device] += cost
        first = min(begin.values(), default=0.0)
        return Timeline(begin=begin, end=end, makespan=max(end.values(), default=0.0) - first, busy=tuple(busy))

    def _check_costs(self, costs: Costs) -> None:
        for kind in (each.name for each in fields(costs)):
            value = getattr(costs, kind)
            if isinstance(value, Sequence) and len(value) != self.stages:
                raise ValueError(f"costs.{kind} has {len(value)} times, but there are {self.stages} stages")
            for time in value if isinstance(value, Sequence) else (0.0 if value is None else value,):
                if not time >= 0:
                    raise ValueError(f"costs.{kind} has the time {time}: it must be 0 or more")

    def stash(self) -> tuple[int, ...]:
        """For each stage, how many microbatches' values it keeps at most for its backward pass, whatever the timing. 0 in inference."""
        peaks = [0] * self.stages
        held = [0] * self.stages
        if not self.training:
            return tuple(peaks)
        for tasks in self.tasks:
            for task in tasks:
                frees = Kind.WEIGHT_GRADIENT if self._gradients(task.stage, 0).kind is Kind.WEIGHT_GRADIENT else Kind.BACKWARD
                if task.kind in (Kind.FORWARD, Kind.LOAD):
                    held[task.stage] += 1
                    peaks[task.stage] = max(peaks[task.stage], held[task.stage])
                elif task.kind in (frees, Kind.STORE):
                    held[task.stage] -= 1
        return tuple(peaks)

    def versions(self) -> Mapping[Task, int]:
        """How many updates the weights have had with which a forward or backward task computes."""
        found: dict[Task, int] = {}
        updates = [0] * self.stages
        for tasks in self.tasks:
            for task in tasks:
                if task.kind is Kind.UPDATE:
                    updates[task.stage] += 1
                elif task.kind is Kind.FORWARD or self.weights != "stashed":
                    found[task] = updates[task.stage]
                else:
                    found[task] = found[Task(task.stage, Kind.FORWARD, task.microbatch)]
        return found

    # ---------------------------------------------------------------------------------------------------------- tables

    def table(self) -> list[list[str]]:
        """A row for each device, with its tasks as text."""
        return [[str(task) for task in tasks] for tasks in self.tasks]

    def to_csv(self) -> str:
        """The table as comma-separated values; the form is that of PyTorch's `_load_csv`."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.table())
        return text.getvalue()

    def show(self, costs: Costs = SLOTS, *, timeline: Timeline | None = None, width: int = 120) -> str:
        """The schedule as text: a row for each device, time to the right, in units of the shortest task.

        Stages are left out where a device has only one.

        Args: timeline: shown instead of what `simulate(costs)` gives, to scale, in `width` columns.
        Raises: as `simulate`.
        """
        from tilestep.train.schedule_pictures import as_text, to_scale

        return as_text(self, costs) if timeline is None else to_scale(self, timeline, width)

    def plot(self, path: str | Path, costs: Costs = SLOTS, *, timeline: Timeline | None = None) -> None:
        """Draws the schedule to a file, whose suffix says the form (.svg, .png, .pdf): a row for each device, time to the right.

        Args: timeline: drawn instead of what `simulate(costs)` gives.
        Raises: ImportError if Matplotlib is not installed (`pip install 'tilestep[plots]'`), ValueError for a suffix that it does not
            know; as `simulate`.
        """
        from tilestep.train.schedule_pictures import plot

        plot(self, path, self.simulate(costs) if timeline is None else timeline)


def from_table(
    rows: Iterable[Iterable[str]],
    *,
    device_mapping: Sequence[int] | None = None,
    levels: Sequence[Sequence[int]] | None = None,
    name: str = "table",
    weights: Weights = "same",
) -> Schedule:
    """A schedule of one's own: a row of tasks for each device, such as ["0F0", "0F1", "0B0", "0B1", "0U"]; empty cells are left out.

    Args: device_mapping: None: where the rows have the stages. levels: None: one stage each.
    Raises: ValueError for what is no task, and as `Schedule` does.
    """
    tasks = tuple(tuple(Task.parse(cell) for cell in row if cell.strip()) for row in rows)
    where = {task.stage: device for device, row in enumerate(tasks) for task in row}
    if device_mapping is None:
        if sorted(where) != list(range(len(where))):
            raise ValueError(f"the table has the stages {sorted(where)}: they must be numbered from 0 on without gaps")
        device_mapping = [where[stage] for stage in range(len(where))]
    microbatches = 1 + max((task.microbatch for row in tasks for task in row if task.microbatch is not None), default=-1)
    return Schedule(
        name=name,
        levels=tuple((stage,) for stage in range(len(device_mapping))) if levels is None else tuple(map(tuple, levels)),
        device_mapping=tuple(device_mapping),
        microbatches=microbatches,
        tasks=tasks,
        weights=weights,
    )


def from_csv(text: str, *, name: str = "CSV", device_mapping: Sequence[int] | None = None) -> Schedule:
    """The schedule that `Schedule.to_csv` or PyTorch wrote. Raises: as `from_table`."""
    return from_table(csv.reader(io.StringIO(text)), device_mapping=device_mapping, name=name)
