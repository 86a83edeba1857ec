"""The usual schedules of pipelines, made by pure functions. `Schedule` says what they are; docs/schedules.md shows them.

Common arguments: `stages` is how many there are, or a list with how many of each level are concurrent ([1, 2, 1]: two in the middle);
`microbatches` of one run; `training`, whether there is a backward pass and an update; `device_mapping`, each stage's device in the
order of levels, by default one for each; `strict`, whether counts of microbatches are refused for which Graphcore's TensorFlow had no
schedule: the pipeline works with any count, but a count that is not a multiple wastes the slots of the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tilestep.train.numbers import whole_number
from tilestep.train.schedule import Kind, Schedule, Task

_F, _B, _I, _W, _U = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT, Kind.UPDATE

Stages = int | Sequence[int]


def sequential(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """One microbatch after the other: nothing overlaps, and nothing is kept. Any count is allowed.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    levels, mapping = _shape(stages, device_mapping)
    steps = 2 * len(levels) if training else len(levels)
    return _by_slots("sequential", levels, mapping, microbatches, training, lambda m, step: m * steps + step, serial=True)


def grouped(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """Stage s of microbatch m in slot m + s, forward stages 0 to N-1 and backward stages N to 2N-1: Graphcore's default.

    In a slot a device does forward of one microbatch and backward of another. Each stage keeps up to 2(N-1-s)+1 microbatches.
    With `strict` the count must be a multiple of 2N, in inference of N.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    levels, mapping = _shape(stages, device_mapping)
    if strict:
        _require_multiple("grouped", microbatches, 2 * len(levels) if training else len(levels))
    return _by_slots("grouped", levels, mapping, microbatches, training, lambda m, step: m + step)


def interleaved(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """Forward and backward take turns on each device (1F1B): stage s of microbatch m in slot 2m + s. Each keeps up to N-s microbatches.

    With `strict` the count must be a multiple of how often the stages go round the devices without two of them meeting: N if each has
    a device of its own, else less; and in training no two levels may share a device.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    levels, mapping = _shape(stages, device_mapping)
    steps = [*range(len(levels)), *(reversed(range(len(levels))) if training else ())]
    if strict and training:
        for device in range(max(mapping) + 1):
            shared = [level for level, members in enumerate(levels) if any(mapping[stage] == device for stage in members)]
            if len(shared) > 1:
                raise ValueError(
                    f"interleaved: levels {shared} are on device {device}, where their tasks would meet in one slot: give each level "
                    "devices of its own, choose the grouped or sequential schedule, or strict=False"
                )
    offsets = _rotations([{mapping[stage] for stage in levels[level]} for level in steps])
    if strict:
        _require_multiple("interleaved", microbatches, len(offsets))

    def slot(m: int, step: int) -> int:
        turn, place = divmod(m, len(offsets))
        return turn * len(steps) + offsets[place] + step

    return _by_slots("interleaved", levels, mapping, microbatches, training, slot)


def looped(devices: int, microbatches: int, *, rounds: int = 2, strict: bool = True) -> Schedule:
    """Interleaved 1F1B with `rounds` stages on each device: data goes round all devices so many times (virtual stages), which makes the
    ramps shorter by that factor, for more transfers. Stage s is on device s mod `devices`.

    With `strict` the count must be a multiple of `devices`; without, the last round is filled up as if there were more.
    Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2.

    Raises: TypeError, ValueError for numbers that cannot be.
    """
    devices, rounds = whole_number("devices", devices, least=1), whole_number("rounds", rounds, least=1)
    microbatches = whole_number("microbatches", microbatches, least=1)
    if strict:
        _require_multiple("looped", microbatches, devices)
    filled = -(-microbatches // devices) * devices
    total = filled * rounds
    tasks: list[tuple[Task, ...]] = []
    for device in range(devices):

        def forward(k: int, device: int = device) -> Task:
            return Task(k // devices % rounds * devices + device, _F, k // (devices * rounds) * devices + k % devices)

        def backward(k: int, device: int = device) -> Task:
            return Task((rounds - 1 - k // devices % rounds) * devices + device, _B, k // (devices * rounds) * devices + k % devices)

        early = min(total, 2 * (devices - device - 1) + (rounds - 1) * devices)
        order = [forward(k) for k in range(early)]
        for k in range(early, total):
            order += [forward(k), backward(k - early)]
        order += [backward(k) for k in range(total - early, total)]
        there = [task for task in order if task.microbatch is not None and task.microbatch < microbatches]
        tasks.append((*there, *(Task(turn * devices + device, _U) for turn in range(rounds))))
    mapping = tuple(stage % devices for stage in range(devices * rounds))
    return Schedule(
        name="looped",
        levels=tuple((stage,) for stage in range(len(mapping))),
        device_mapping=mapping,
        microbatches=microbatches,
        tasks=tuple(tasks),
    )


def zero_bubble(stages: Stages, microbatches: int, *, device_mapping: Sequence[int] | None = None, strict: bool = True) -> Schedule:
    """1F1B whose backward is in two: the input gradient, for which the stage before waits, and the weight gradient, which fills gaps.

    Each stage keeps up to N microbatches, as many as 1F1B's first. Any count is allowed.
    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023, schedule ZB-H1.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    order = interleaved(stages, microbatches, device_mapping=device_mapping, strict=False)
    return replace(order, name="zero_bubble", tasks=tuple(_zero_bubble_tasks(order)))


def stale(stages: Stages, microbatches: int, *, device_mapping: Sequence[int] | None = None, strict: bool = True) -> Schedule:
    """An update after each microbatch's backward, and no waiting for it: PopART's pipeline without gradient accumulation.

    With L the last stage, forward of microbatch m at stage s has the weights after max(0, m - 2(L-s)) updates, backward the newest, after
    m of them. The ramps are a run's own: with each run the weights are the same again at first.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    levels, mapping = _shape(stages, device_mapping)
    microbatches = whole_number("microbatches", microbatches, least=1)
    last = len(levels) - 1
    slots: list[list[tuple[int, int, Task]]] = [[] for _ in range(max(mapping) + 1)]
    for m in range(microbatches):
        for level, members in enumerate(levels):
            for stage in members:  # in a slot forward comes first, and the last stage does both
                slots[mapping[stage]] += [
                    (m + level, level, Task(stage, _F, m)),
                    (m + 2 * last - level, 2 * last - level + 1, Task(stage, _B, m)),
                    (m + 2 * last - level, 2 * last - level + 2, Task(stage, _U, m)),
                ]
    tasks = tuple(tuple(task for *_, task in sorted(own, key=lambda entry: entry[:2])) for own in slots)
    return Schedule(name="stale", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks, weights="stale")


def stashed(stages: Stages, microbatches: int, *, device_mapping: Sequence[int] | None = None, strict: bool = True) -> Schedule:
    """1F1B with an update after each microbatch's backward, which has the very weights that its forward had: they are kept so long.

    Source: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019, weight stashing.

    Raises: TypeError, ValueError for numbers and mappings that cannot be.
    """
    order = interleaved(stages, microbatches, device_mapping=device_mapping, strict=False)
    tasks = tuple(tuple(_with_updates(own)) for own in order.tasks)
    return replace(order, name="stashed", tasks=tasks, weights="stashed")


def offloading(schedule: Schedule, stages: Sequence[int]) -> Schedule:
    """The schedule with what these stages keep for backward in another memory between: stored after forward, loaded before backward.

    Raises: ValueError for a stage that there is not, or a schedule without a backward pass.
    """
    if not schedule.training:
        raise ValueError(f"the schedule {schedule.name} has no backward pass: nothing is kept that could be stored")
    wrong = [stage for stage in stages if not 0 <= stage < schedule.stages]
    if wrong:
        raise ValueError(f"there is no stage {wrong[0]} to offload: the schedule has {schedule.stages} stages, from 0 on")

    def tasks(own: Sequence[Task]) -> Iterator[Task]:
        for task in own:
            moved = task.stage in stages
            if moved and task.kind in (_B, _I):
                yield Task(task.stage, Kind.LOAD, task.microbatch)
            yield task
            if moved and task.kind is _F:
                yield Task(task.stage, Kind.STORE, task.microbatch)

    return replace(schedule, name=f"{schedule.name}, offloading", tasks=tuple(tuple(tasks(own)) for own in schedule.tasks))


SCHEDULES: Final[dict[str, Callable[..., Schedule]]] = {
    "sequential": sequential,
    "grouped": grouped,
    "interleaved": interleaved,
    "looped": looped,
    "zero_bubble": zero_bubble,
    "stale": stale,
    "stashed": stashed,
}


def _shape(stages: Stages, device_mapping: Sequence[int] | None) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """(levels, mapping). Raises: TypeError, ValueError if they cannot be."""
    sizes = [1] * whole_number("stages", stages, least=1) if isinstance(stages, int) else list(stages)
    if not sizes:
        raise ValueError("stages is empty: a pipeline has at least one level")
    sizes = [whole_number(f"stages[{level}]", size, least=1) for level, size in enumerate(sizes)]
    starts = [sum(sizes[:level]) for level in range(len(sizes))]
    levels = tuple(tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True))
    if device_mapping is None:
        return levels, tuple(range(sum(sizes)))
    mapping = tuple(whole_number(f"device_mapping[{stage}]", device, least=0) for stage, device in enumerate(device_mapping))
    if len(mapping) != sum(sizes):
        raise ValueError(f"device_mapping has {len(mapping)} devices, but there are {sum(sizes)} stages: each stage needs one")
    missing = set(range(max(mapping) + 1)) - set(mapping)
    if missing:
        raise ValueError(f"device_mapping {list(mapping)} leaves out device {min(missing)}: number the devices from 0 on")
    return levels, mapping


def _require_multiple(name: str, microbatches: int, step: int) -> None:
    microbatches = whole_number("microbatches", microbatches, least=1)
    if microbatches % step:
        below, above = microbatches // step * step, -(-microbatches // step) * step
        near = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"{name}: the count of microbatches is {microbatches}, which must be a multiple of {step}: {near}; or strict=False"
        )


def _rotations(ring: Sequence[set[int]]) -> list[int]:
    """How far apart microbatches may go round a ring of steps so that no two are ever on one device: the offsets, the first is 0."""
    chosen: list[int] = []
    for offset in range(len(ring)):
        if all(ring[t - offset].isdisjoint(ring[t - other]) for other in chosen for t in range(len(ring))):
            chosen.append(offset)
    return chosen


def _by_slots(
    name: str,
    levels: tuple[tuple[int, ...], ...],
    mapping: tuple[int, ...],
    microbatches: int,
    training: bool,
    slot: Callable[[int, int], int],
    *,
    serial: bool = False,
) -> Schedule:
    """Each device's tasks by slot; in one slot backward first, whose values are free then, and of these the last levels."""
    microbatches = whole_number("microbatches", microbatches, least=1)
    own: list[list[tuple[int, int, Task]]] = [[] for _ in range(max(mapping) + 1)]
    steps = 2 * len(levels) if training else len(levels)
    for m in range(microbatches):
        for step in range(steps):
            forward = step < len(levels)
            for stage in levels[step if forward else steps - 1 - step]:
                own[mapping[stage]].append((slot(m, step), -step, Task(stage, _F if forward else _B, m)))
    tasks = [[task for *_, task in sorted(entries, key=lambda entry: entry[:2])] for entries in own]
    if training:
        for stage, device in enumerate(mapping):
            tasks[device].append(Task(stage, _U))
    return Schedule(
        name=name, levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tuple(map(tuple, tasks)), serial=serial
    )


def _with_updates(tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        if task.kind is not _U:
            yield task
        if task.kind is _B:
            yield Task(task.stage, _U, task.microbatch)


def _zero_bubble_tasks(order: Schedule) -> Iterator[tuple[Task, ...]]:
    """The tasks of 1F1B with backward in two, if each takes one slot: weight gradients where a device would wait or keep too much."""
    depth = len(order.levels)
    main = [[Task(stage, _I if kind is _B else kind, m) for stage, kind, m in own if kind is not _U] for own in order.tasks]
    position = [0] * len(main)
    found: list[list[Task]] = [[] for _ in main]
    owed: list[list[Task]] = [[] for _ in main]  # weight gradients that may be made
    kept = [0] * order.stages
    done: set[Task] = set()

    def ready(task: Task) -> bool:
        level = next(level for level, members in enumerate(order.levels) if task.stage in members)
        if task.kind is _F:
            needs = [Task(stage, _F, task.microbatch) for stage in (order.levels[level - 1] if level else ())]
            return kept[task.stage] < depth and done.issuperset(needs)
        needs = [Task(stage, _I, task.microbatch) for stage in (order.levels[level + 1] if level + 1 < depth else ())]
        return done.issuperset(needs)

    while any(position[device] < len(own) or owed[device] for device, own in enumerate(main)):
        now: list[Task] = []
        for device, own in enumerate(main):
            task = own[position[device]] if position[device] < len(own) else None
            if task is not None and ready(task):
                position[device] += 1
                kept[task.stage] += task.kind is _F
                owed[device] += [Task(task.stage, _W, task.microbatch)] if task.kind is _I else []
            elif owed[device]:
                task = owed[device].pop(0)
                kept[task.stage] -= 1
            else:
                continue
            found[device].append(task)
            now.append(task)
        done.update(now)
    for device, tasks in enumerate(found):
        yield (*tasks, *(Task(stage, _U) for stage, where in enumerate(order.device_mapping) if where == device))
