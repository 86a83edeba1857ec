"""Puts loads and stores of parameters into a schedule whose stages keep them in another memory.

A device visits its stages one after the other. A visit is a row of tasks of one stage. It needs that stage's parameters, and the next visit
the next one's. So they come while others compute: ahead of the visit before
where the next one waits for that alone, else right behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of
from tilestep.train.schedules.checks import require_schedule
from tilestep.train.schedules.tasks import OF_PARAMETERS, Kind, Task

if TYPE_CHECKING:
    from tilestep.train.schedules.schedule import Schedule

_KEPT: Final = 2  # visits ahead: a stage that comes again so soon keeps its parameters on the device


def loading_parameters(schedule: Schedule, stages: Sequence[int] | None = None) -> Schedule:
    """The schedule with parameters in another memory: a device has those of the stage that it works on, and of the next one.

    The parameters of a stage are loaded before a visit, unless they are still there from one of the two visits before. A stage's closing
    update comes right after its last other task, and is followed by a store.

    Args:
        schedule: one whose weights stay the same within a run.
        stages: numbers of the stages whose parameters are loaded; None: all.

    Returns:
        The schedule with tasks for loading and storing parameters.

    Raises:
        TypeError: for stages that are no list.
        ValueError: for a stage that does not exist, and a schedule whose weights change within a run or that has such tasks.
    """
    require_schedule(schedule)
    chosen = range(schedule.stages) if stages is None else items_of("stages", stages, "a list of stages' numbers, such as [0, 1]")
    numbers = frozenset(whole_number(f"stages[{index}]", stage, least=0, most=schedule.stages - 1) for index, stage in enumerate(chosen))
    if schedule.weights != "same":
        raise ValueError(
            f"the {schedule.name} schedule updates weights within a run: choose one whose weights are the same, or leave the parameters on "
            "the devices"
        )
    if any(task.kind in OF_PARAMETERS for row in schedule.tasks for task in row):
        raise ValueError(f"the schedule {schedule.name} loads parameters already")
    rows = tuple(tuple(_numbered(_row(schedule, _updates_early(row, numbers), numbers))) for row in schedule.tasks)
    return replace(schedule, name=f"{schedule.name}, loading parameters", tasks=rows)


def lasts(tasks: Sequence[Task]) -> frozenset[Task]:
    """The tasks after which a stage's parameters are needed no more before they are loaded again. Args: tasks: all, in order."""
    found: set[Task] = set()
    latest: dict[int, Task] = {}
    for task in tasks:
        if task.kind is Kind.LOAD_PARAMETERS and task.stage in latest:
            found.add(latest[task.stage])
        latest[task.stage] = task
    loaded = {task.stage for task in tasks if task.kind is Kind.LOAD_PARAMETERS}
    return frozenset(found | {task for stage, task in latest.items() if stage in loaded})


def _updates_early(row: Sequence[Task], stages: frozenset[int]) -> list[Task]:
    """A device's tasks with the closing updates of some stages right after their last other tasks."""
    closing = {task.stage: task for task in row if task.kind is Kind.UPDATE and task.microbatch is None and task.stage in stages}
    rest = [task for task in row if task not in closing.values()]
    last = {task.stage: task for task in rest}
    found: list[Task] = []
    for task in rest:
        found.append(task)
        if last[task.stage] == task and task.stage in closing:
            found.append(closing[task.stage])
    return found


def _row(schedule: Schedule, row: Sequence[Task], stages: frozenset[int]) -> list[Task]:
    """A device's tasks with loads, none of which is numbered, and stores."""
    visits = list(_visits(row))
    before: list[list[Task]] = [[] for _ in visits]
    there: set[int] = set()  # stages whose parameters are on the device
    for index, visit in enumerate(visits):
        stage = visit[0].stage
        if stage in stages and stage not in there:
            there.add(stage)
            waits = index > 0 and _waits_for(schedule, visit[0], visits[index - 1])
            before[index - waits].append(Task(stage, Kind.LOAD_PARAMETERS, 0))
        if all(later[0].stage != stage for later in visits[index + 1 : index + 1 + _KEPT]):
            there.discard(stage)
    return [task for loads, visit in zip(before, visits, strict=True) for task in (*loads, *_stored(visit, stages))]


def _visits(row: Sequence[Task]) -> Iterator[list[Task]]:
    visit: list[Task] = []
    for task in row:
        if visit and visit[0].stage != task.stage:
            yield visit
            visit = []
        visit.append(task)
    if visit:
        yield visit


def _waits_for(schedule: Schedule, task: Task, before: Sequence[Task]) -> bool:
    """Whether a task waits for one of the tasks before, or for no other device at all."""
    needs = list(schedule.needs(task))
    return not any(schedule.device(need) != schedule.device(task) for need in needs) or any(need in before for need in needs)


def _stored(visit: Sequence[Task], stages: frozenset[int]) -> Iterator[Task]:
    for task in visit:
        yield task
        if task.kind is Kind.UPDATE and task.stage in stages:
            yield Task(task.stage, Kind.STORE_PARAMETERS, 0)


def _numbered(row: Sequence[Task]) -> Iterator[Task]:
    count: dict[tuple[int, Kind], int] = {}
    for task in row:
        if task.kind not in OF_PARAMETERS:
            yield task
            continue
        key = task.stage, task.kind
        yield task._replace(microbatch=count.get(key, 0))
        count[key] = count.get(key, 0) + 1
