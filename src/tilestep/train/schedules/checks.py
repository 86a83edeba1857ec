"""What must be true of a schedule's tasks, apart from their order. How long a check takes depends on the count of tasks alone."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, replace
from typing import Any, Final

from tilestep.messages import shown
from tilestep.train.numbers import real_number, whole_number
from tilestep.train.other_arguments import items_of, require_kind, require_one_of
from tilestep.train.schedules.tasks import OF_PARAMETERS, WEIGHTS, Costs, Kind, Task

HOW_LEVELS: Final = "levels=[[0], [1, 2], [3]] makes stages 1 and 2 concurrent"  # as from_table and Schedule take them

WAYS: Final = ("apart", "together")  # in which devices exchange
_BETWEEN: Final = ("element", "collect", "results")  # costs that are no stage's
_DEFAULTS: Final = ("backward", "input_gradient", "weight_gradient", "gradient_transfer")  # costs that may be None

_Numbers = Mapping[tuple[int, Kind], Set[int | None]]  # (stage, kind) -> microbatches


def require_shape(levels: Sequence[Sequence[int]], device_mapping: Sequence[int], microbatches: int, weights: str, *, devices: int) -> None:
    """Raises: TypeError, ValueError for levels, devices, a count or weights that cannot be. Args: devices: rows of tasks."""
    if not device_mapping:
        raise ValueError("device_mapping is empty: a schedule has at least one stage")
    for stage, device in enumerate(device_mapping):
        whole_number(f"device_mapping[{stage}]", device, least=0, hint=", a device's index")
    if [stage for stages in levels for stage in stages] != list(range(len(device_mapping))) or not all(levels):
        raise ValueError(
            f"levels {shown(levels)} must number the {len(device_mapping)} stages of device_mapping from 0 on, in order, each in "
            f"one level: {HOW_LEVELS}"
        )
    unknown = next((device for device in device_mapping if not 0 <= device < devices), None)
    if unknown is not None:
        raise ValueError(
            f"device_mapping {shown(list(device_mapping))} names a device that has no tasks, {unknown}: there are {devices} "
            "of them, from 0 on"
        )
    whole_number("microbatches", microbatches, least=1)
    require_one_of("weights", weights, WEIGHTS)


def require_tasks(device_mapping: Sequence[int], microbatches: int, tasks: Sequence[Sequence[Task]]) -> None:
    """Raises: ValueError for tasks that cannot be or are there twice, and if one is missing."""
    for device, row in enumerate(tasks):
        for task in row:
            stage, kind, microbatch = task
            if not 0 <= stage < len(device_mapping):
                raise ValueError(f"device {device} has task {task}, but there are {len(device_mapping)} stages, from 0 on")
            if device_mapping[stage] != device:
                raise ValueError(f"device {device} has task {task}, but stage {stage} is on device {device_mapping[stage]}")
            if microbatch is None:
                if kind != Kind.UPDATE:
                    raise ValueError(f"device {device} has task {task} without a microbatch: only an update may be for all of them")
            elif kind not in OF_PARAMETERS and not 0 <= microbatch < microbatches:
                raise ValueError(f"device {device} has task {task}, but there are {microbatches} microbatches, from 0 on")
    every = list(itertools.chain.from_iterable(tasks))
    if len(set(every)) < len(every):
        twice = [str(task) for task, count in Counter(every).items() if count > 1]
        raise ValueError(f"there is more than one of {', '.join(twice[:5])}: each task is done once")
    _require_all(device_mapping, microbatches, every)


def _require_all(device_mapping: Sequence[int], microbatches: int, tasks: Collection[Task]) -> None:
    present: dict[tuple[int, Kind], set[int | None]] = {}
    for stage, kind, microbatch in tasks:
        present.setdefault((stage, kind), set()).add(microbatch)
    kinds = {kind for _, kind in present}
    gaps = [gap for stage in range(len(device_mapping)) for gap in _gaps(present, kinds, stage, microbatches)]
    if not gaps:
        return
    first, _ = min(gaps, key=lambda gap: (gap[0].stage, gap[0].kind is Kind.UPDATE, gap[0].microbatch or 0))
    others = sum(count for _, count in gaps) - 1
    reason = ""
    numbered = (task for task in tasks if task.microbatch is not None and task.kind not in OF_PARAMETERS)
    largest = max(numbered, key=lambda task: task.microbatch or 0, default=None)
    if largest is not None and (largest.microbatch or 0) >= len(tasks):
        reason = (
            f"device {device_mapping[largest.stage]} has task {largest}, but there are {len(tasks)} tasks in all, and microbatches are "
            "numbered from 0 on: "
        )
    raise ValueError(f"{reason}task {first} is missing" + (f", and {others} others" if others else ""))


def _gaps(present: _Numbers, kinds: Set[Kind], stage: int, microbatches: int) -> Iterator[tuple[Task, int]]:
    """For each kind of task of which a stage lacks some: the first of them, and how many they are."""
    there = {kind: present.get((stage, kind), frozenset()) for kind in Kind}
    wanted = [Kind.FORWARD]
    if kinds & {Kind.BACKWARD, Kind.INPUT_GRADIENT}:
        wanted += [Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT] if there[Kind.INPUT_GRADIENT] else [Kind.BACKWARD]
    if Kind.UPDATE in kinds and None not in there[Kind.UPDATE]:
        wanted.append(Kind.UPDATE)
    for kind in wanted:
        lacking = microbatches - len(there[kind])
        if lacking:
            yield Task(stage, kind, next(number for number in itertools.count() if number not in there[kind])), lacking
    for kind, other in ((Kind.STORE, Kind.LOAD), (Kind.LOAD, Kind.STORE)):
        lacking = [number for number in there[other] - there[kind] if number is not None]
        if lacking:
            yield Task(stage, kind, min(lacking)), len(lacking)


def require_moves(tasks: Sequence[Sequence[Task]], weights: str) -> None:
    """Raises: ValueError for loads and stores of parameters that are not in order, or of no use.

    A stage that loads its parameters does so before anything else, and after its update it stores them before it loads again.
    """
    moves = {task.stage for row in tasks for task in row if task.kind in OF_PARAMETERS}
    if moves and weights != "same":
        raise ValueError(f"there are loads of parameters, but weights {weights!r} change within a run: leave P and Q away")
    for row in tasks:
        for stage in sorted(moves):
            _require_order([task for task in row if task.stage == stage])


def _require_order(own: Sequence[Task]) -> None:
    count = {Kind.LOAD_PARAMETERS: 0, Kind.STORE_PARAMETERS: 0}
    is_changed = False
    for task in own:
        if task.kind in OF_PARAMETERS:
            wanted = Task(task.stage, task.kind, count[task.kind])
            if task != wanted:
                raise ValueError(f"there is task {task} where {wanted} is next: loads and stores are numbered in their order, from 0 on")
            count[task.kind] += 1
            if (task.kind is Kind.STORE_PARAMETERS) != is_changed:
                least, why = ("before", "would lose") if is_changed else ("after", "has nothing of")
                raise ValueError(f"task {task} {why} an update of stage {task.stage}: a store (Q) belongs {least} it, behind each update")
            is_changed = False
        elif not count[Kind.LOAD_PARAMETERS]:
            raise ValueError(f"task {task} is before the first load of its parameters, {task.stage}P0")
        is_changed = is_changed or task.kind is Kind.UPDATE
    if is_changed:
        raise ValueError(f"the update of stage {own[0].stage} is not stored: {own[0].stage}Q{count[Kind.STORE_PARAMETERS]} is missing")


def require_schedule(schedule: object) -> None:
    """Raises: TypeError for what is no Schedule, a class of a module that imports this one."""
    if type(schedule).__name__ != "Schedule":
        raise TypeError(f"schedule is a {type(schedule).__name__}: it must be a Schedule, such as schedules.grouped(3, 6)")


def checked_costs(costs: Any, stages: int) -> Costs:
    """The costs with a tuple in place of each list or array.

    Raises: TypeError for what are no costs, or a time that is no number. ValueError for a time that is below 0 or not finite, and for
        another number of times than there are stages.
    """
    require_kind("costs", costs, Costs, "Costs, such as Costs(forward=1, backward=2)")
    found: dict[str, Any] = {}
    for kind in (each.name for each in fields(costs)):
        value, name = getattr(costs, kind), f"costs.{kind}"
        if kind == "unit":
            if not isinstance(value, str):
                raise TypeError(f"{name} is {shown(value)}: it must be text, such as 's'")
            continue
        if value is None and kind in _DEFAULTS:
            continue
        if kind in _BETWEEN or isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
            found[kind] = real_number(name, value)
            continue
        times = items_of(name, value, "a number, or a list with one for each stage")
        if len(times) != stages:
            raise ValueError(f"{name} has {len(times):,} times, but there are {stages:,} stages: give one for each, or a number for all")
        found[kind] = tuple(real_number(f"{name}[{stage}]", time) for stage, time in enumerate(times))
    return replace(costs, **found)
