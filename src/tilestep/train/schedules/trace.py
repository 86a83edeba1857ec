"""Reads from the trace of an emulated machine when each task of a pipeline happened.

with tilestep.profile() as profile:
    state, losses = pipeline.step(state, microbatches)
    jax.block_until_ready(losses)
timeline = traced(pipeline.schedule, profile.timeline)
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from tilestep.messages import shown
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of, require_kind
from tilestep.train.schedules.checks import require_schedule
from tilestep.train.schedules.schedule import Costs, Kind, Schedule, Task, Timeline
from tilestep.train.schedules.tasks import OF_PARAMETERS

_PROGRAM: Final = re.compile(
    r"stage_\d+_(forward_and_backward|forward|backward|input_gradient|weight_gradient|update|load_parameters|store_parameters)$"
)
_GRADIENT_SUM: Final = "gradient_sum"  # several stages read one output, before its stage's backward
_HOW_EVENTS: Final = "a list of events, such as profile.timeline"
_EVENT_ATTRIBUTES: Final = ("ipu", "start_cycle", "end_cycle", "kind", "program")
_MOST_PROFILED_UPDATES: Final = 2**31 - 1
_KINDS: Final = {
    "forward": Kind.FORWARD,
    "forward_and_backward": Kind.FORWARD,
    "backward": Kind.BACKWARD,
    "input_gradient": Kind.INPUT_GRADIENT,
    "weight_gradient": Kind.WEIGHT_GRADIENT,
    "update": Kind.UPDATE,
    "load_parameters": Kind.LOAD_PARAMETERS,
    "store_parameters": Kind.STORE_PARAMETERS,
}


class TraceEvent(Protocol):
    """One thing that an IPU did; those of a profile's timeline are such."""

    @property
    def ipu(self) -> int: ...
    @property
    def start_cycle(self) -> int: ...
    @property
    def end_cycle(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def program(self) -> str: ...


class _Run(NamedTuple):
    begin: int
    end: int
    kind: Kind
    both: bool  # forward and backward in one


def traced(schedule: Schedule, events: Iterable[TraceEvent], *, update: int = -1) -> Timeline:
    """When each task of one update happened, in cycles from the begin of the first one.

    A task lasts from the begin of its program's compute to the end of its compute, exchanges and syncs between tiles. The sum of several
    stages' gradients is a part of backward. Transfers from the host before a task, and to other IPUs after it, are outside. A task without
    a program takes no time: the backward of the last stage, which is one program with its forward, input gradients of a first stage, and
    updates of an optimiser that looks across stages. A load or store of parameters is all that its program does.

    Args:
        schedule: of the pipeline.
        events: `profile.timeline` of a profile that covers whole updates.
        update: the number of the update in the profile; -1 is the last.

    Returns:
        The times of all tasks, in cycles.

    Raises:
        TypeError: for a schedule that is no Schedule, or events or an update of another kind.
        ValueError: if the events are not those of whole updates with this schedule.
    """
    require_schedule(schedule)
    events = items_of("events", events, _HOW_EVENTS)
    others = [event for event in events if not all(hasattr(event, name) for name in _EVENT_ATTRIBUTES)]
    if others:
        raise TypeError(f"events has {shown(others[0])}: it must be {_HOW_EVENTS}")
    update = whole_number("update", update, least=-_MOST_PROFILED_UPDATES, most=_MOST_PROFILED_UPDATES)
    runs = _runs(events)
    ipus = _ipus(schedule, runs)
    begin: dict[Task, float] = {}
    end: dict[Task, float] = {}
    for device, tasks in enumerate(schedule.tasks):
        own = runs[ipus[device]]
        present = [task for task in tasks if _has_program(schedule, task, own)]
        updates, rest = divmod(len(own), len(present))
        if rest or not -updates <= update < updates:
            raise ValueError(
                f"events: the trace has {len(own)} runs of stages' programs on IPU {ipus[device]}, but an update has {len(present)} tasks "
                f"there: "
                f"it must cover whole updates, and update is {update}"
            )
        first = update % updates * len(present)
        for task, run in zip(present, own[first : first + len(present)], strict=True):
            if run.kind is not task.kind:
                raise ValueError(
                    f"events: the trace has {run.kind.name} on IPU {ipus[device]} where the schedule {schedule.name} has the task {task}"
                )
            begin[task], end[task] = run.begin, run.end
        for before, task in pairwise(tasks):
            if task not in begin:
                begin[task] = end[task] = end[before]
    zero = min(begin.values())
    begin = {task: time - zero for task, time in begin.items()}
    end = {task: time - zero for task, time in end.items()}
    busy = [sum(end[task] - begin[task] for task in tasks) for tasks in schedule.tasks]
    return Timeline(begin=begin, end=end, makespan=max(end.values()), busy=tuple(busy), unit="cycles")


def costs_of(schedule: Schedule, timeline: Timeline) -> Costs:
    """The longest time of each kind of task on each stage, over all microbatches. Transfers have none.

    Args:
        schedule: the schedule of the timeline's tasks.
        timeline: of `traced`, in cycles, or another one.

    Returns:
        Costs in the timeline's unit.

    Raises:
        TypeError: for a schedule that is no Schedule, or a timeline that is no Timeline.
    """
    require_schedule(schedule)
    require_kind("timeline", timeline, Timeline, "a Timeline, such as schedule.simulate()")

    def longest(kind: Kind) -> list[float]:
        lengths = [[0.0] for _ in range(schedule.stages)]
        for task, end in timeline.end.items():
            if task.kind is kind:
                lengths[task.stage].append(end - timeline.begin[task])
        return [max(own) for own in lengths]

    return Costs(
        forward=longest(Kind.FORWARD),
        backward=longest(Kind.BACKWARD),
        input_gradient=longest(Kind.INPUT_GRADIENT),
        weight_gradient=longest(Kind.WEIGHT_GRADIENT),
        update=longest(Kind.UPDATE),
        load_parameters=longest(Kind.LOAD_PARAMETERS),
        store_parameters=longest(Kind.STORE_PARAMETERS),
        unit=timeline.unit,
    )


def _runs(events: Iterable[TraceEvent]) -> Mapping[int, Sequence[_Run]]:
    """The runs of stages' programs on each IPU, in order of time."""
    by_ipu: dict[int, list[TraceEvent]] = {}
    for event in sorted(events, key=lambda event: event.start_cycle):
        by_ipu.setdefault(event.ipu, []).append(event)
    runs: dict[int, list[_Run]] = {}
    summed: dict[int, int] = {}  # IPU -> when it began to add up gradients for its next backward
    for ipu, own in by_ipu.items():
        for place, event in enumerate(own):
            if event.kind not in ("compute", "host-call"):
                continue
            if event.program.endswith(_GRADIENT_SUM):
                summed.setdefault(ipu, event.start_cycle)
            match = _PROGRAM.search(event.program)
            if match is None or (event.kind == "host-call") != (_KINDS[match[1]] in OF_PARAMETERS):
                continue
            end, kinds = event.end_cycle, ["exchange", "sync"]
            for _, after in pairwise(own[place : place + 3]):
                if after.kind not in kinds or after.start_cycle != end:
                    break
                kinds = kinds[kinds.index(after.kind) + 1 :]
                end = after.end_cycle
            begin = summed.pop(ipu, event.start_cycle)
            runs.setdefault(ipu, []).append(_Run(begin, end, _KINDS[match[1]], match[1] == "forward_and_backward"))
    return runs


def _ipus(schedule: Schedule, runs: Mapping[int, Sequence[_Run]]) -> Sequence[int]:
    """Each device's IPU: devices are numbered in the order of their indices."""
    if len(runs) != len(schedule.tasks):
        raise ValueError(
            f"events: the trace has runs of stages' programs on IPUs {shown(sorted(runs))}, but the schedule {schedule.name} has "
            f"{len(schedule.tasks)} devices"
        )
    return sorted(runs)


def _has_program(schedule: Schedule, task: Task, runs: Sequence[_Run]) -> bool:
    if task.kind is Kind.FORWARD:
        return True
    if task.kind in OF_PARAMETERS:  # a stage may have all of them on the device
        return any(run.kind is task.kind for run in runs)
    if task.kind is Kind.UPDATE:  # an optimiser that looks across stages has programs of its own
        return any(run.kind is Kind.UPDATE for run in runs)
    if task.kind is Kind.INPUT_GRADIENT and task.stage in schedule.levels[0]:
        return False
    return task.stage not in schedule.levels[-1] or not any(run.both for run in runs)
