"""Makes the usual schedules of pipelines. `Schedule` says what a schedule is; docs/reference/schedules.md shows them.

The functions share arguments and errors. N is the number of levels, and stage s stands for each stage of level s.

Args:
    stages: the number of stages, or for each level how many of them are concurrent ([1, 2, 1]: two in the middle).
    microbatches: the number of microbatches in a run.
    training: whether there is a backward pass and an update.
    device_mapping: for each stage, in the order of levels, the number of its device; None: one device for each.
    strict: whether to refuse counts of microbatches for which Graphcore's TensorFlow had no schedule. The pipeline works with any count,
        but a count that is not a multiple wastes the slots of the last round.

Raises:
    TypeError: for a count that is no whole number, and for another argument of a wrong kind.
    ValueError: for counts and mappings that are impossible, and for a count that `strict` refuses.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter
from typing import Final

from tilestep.messages import shown
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of, require_bools
from tilestep.train.schedules.checks import require_schedule
from tilestep.train.schedules.schedule import Kind, Schedule, Task

_F, _B, _I, _W, _U = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT, Kind.UPDATE

_SIZES: Final = ": how many stages there are, or of each level in a list, such as [1, 2, 1]; Pipeline takes their functions"

MOST_FORWARDS: Final = 250_000  # a schedule lists all its tasks: making one so large takes some 20 s

Stages = int | Sequence[int]
Levels = tuple[tuple[int, ...], ...]
Rows = tuple[tuple[Task, ...], ...]


def sequential(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """One microbatch after the other: nothing overlaps, and no stage keeps values of several microbatches.

    Args:
        stages: their number, or a list with the number in each level.
        microbatches: their number in a run.
        training: whether there is a backward pass.
        device_mapping: the number of each stage's device.
        strict: of no effect, because any count is allowed.

    Returns: The schedule.
    Raises: TypeError, ValueError. `tilestep.train.schedules.standard` says for which arguments, and more of each.
    """
    require_bools(training=training, strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    steps = 2 * len(levels) if training else len(levels)
    tasks = _by_slots(levels, mapping, microbatches, lambda m, step: m * steps + step, training=training)
    return Schedule(name="sequential", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks, serial=True)


def grouped(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """Forward of all stages in one slot after the other, then backward: Graphcore's default.

    Stage s of microbatch m is in slot m + s, where forward stages are 0 to N-1 and backward stages N to 2N-1. In a slot a device does
    forward of one microbatch and backward of another. Each stage keeps values of up to 2(N-1-s)+1 microbatches.

    Args:
        stages, microbatches, training, device_mapping: as for `sequential`.
        strict: whether the count must be a multiple of 2N, in inference of N.

    Returns: The schedule. Raises: as `sequential`.
    """
    require_bools(training=training, strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    if strict:
        count = f"{len(levels)} {'stages' if len(levels) == len(mapping) else 'levels of stages'}"
        reason = f"twice the {count}, for forward and backward" if training else f"one for each of {count}"
        _require_multiple("grouped", microbatches, (1 + training) * len(levels), reason)
    tasks = _by_slots(levels, mapping, microbatches, lambda m, step: m + step, training=training)
    return Schedule(name="grouped", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks)


def interleaved(
    stages: Stages, microbatches: int, *, training: bool = True, device_mapping: Sequence[int] | None = None, strict: bool = True
) -> Schedule:
    """Forward and backward take turns on each device (1F1B).

    Stage s of microbatch m is in slot 2m + s. Each stage keeps values of up to N-s microbatches.

    Args:
        stages, microbatches, training, device_mapping: as for `sequential`.
        strict: whether the count must be a multiple of the number of microbatches that go round the devices without meeting: N if each
            stage has a device of its own, else less. In training no two levels may share a device then.

    Returns: The schedule. Raises: as `sequential`.
    """
    require_bools(training=training, strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    if strict and training:
        levels_on: list[dict[int, None]] = [{} for _ in range(max(mapping) + 1)]  # by device, in order
        for level, members in enumerate(levels):
            for stage in members:
                levels_on[mapping[stage]][level] = None
        for device, shared in enumerate(map(list, levels_on)):
            if len(shared) > 1:
                raise ValueError(
                    f"interleaved: levels {shared} are on device {device}, where their tasks would meet in one slot: give each level "
                    "devices of its own by device_mapping, choose the grouped or sequential schedule; or strict=False"
                )
    if strict:
        step = len(_offsets(levels, mapping, training=training))
        _require_multiple("interleaved", microbatches, step, "as many as can go round the devices at once")
    tasks = _interleaved_tasks(levels, mapping, microbatches, training=training)
    return Schedule(name="interleaved", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks)


def looped(devices: int, microbatches: int, *, rounds: int = 2, strict: bool = True) -> Schedule:
    """Interleaved 1F1B with several stages on each device: data goes round all devices `rounds` times (virtual stages).

    The ramps are shorter by that factor, and there are more transfers. Stage s is on device s mod `devices`.

    Args:
        devices: the number of devices.
        microbatches: their number in a run.
        rounds: the number of stages on each device.
        strict: whether the count must be a multiple of `devices`. Without it the last round has gaps.

    Returns: The schedule. Raises: as `sequential`.

    Source:
        Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2.
    """
    require_bools(strict=strict)
    devices, rounds = whole_number("devices", devices, least=1), whole_number("rounds", rounds, least=1)
    microbatches = whole_number("microbatches", microbatches, least=1)
    _require_bounded(devices * rounds, microbatches, "devices x rounds")
    if strict:
        _require_multiple("looped", microbatches, devices, "one for each device")
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
    """1F1B with backward in two: the input gradient, for which the stage before waits, and the weight gradient, which fills gaps.

    Each stage keeps values of up to N microbatches, as the first stage of 1F1B does.

    Args:
        stages, microbatches, device_mapping: as for `sequential`.
        strict: of no effect, because any count is allowed.

    Returns: The schedule. Raises: as `sequential`.

    Source:
        Qi et al., "Zero Bubble Pipeline Parallelism", 2023, schedule ZB-H1.
    """
    require_bools(strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    tasks = tuple(_zero_bubble_tasks(levels, mapping, _interleaved_tasks(levels, mapping, microbatches, training=True)))
    return Schedule(name="zero_bubble", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks)


def stale(stages: Stages, microbatches: int, *, device_mapping: Sequence[int] | None = None, strict: bool = True) -> Schedule:
    """An update after each microbatch's backward, for which no forward waits: PopART's pipeline without gradient accumulation.

    With L the last stage, forward of microbatch m at stage s has the weights after max(0, m - 2(L-s)) updates. Backward has the newest,
    after m updates. The ramps belong to each run: at its begin all stages have the same version again.

    Args:
        stages, microbatches, device_mapping: as for `sequential`.
        strict: of no effect, because any count is allowed.

    Returns: The schedule. Raises: as `sequential`.
    """
    require_bools(strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    tasks = forward_first(levels, mapping, microbatches, training=True, stale_weights=True)
    return Schedule(name="stale", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks, weights="stale")


def stashed(stages: Stages, microbatches: int, *, device_mapping: Sequence[int] | None = None, strict: bool = True) -> Schedule:
    """1F1B with an update after each microbatch's backward, which has the very weights that its forward had: they are kept so long.

    Args:
        stages, microbatches, device_mapping: as for `sequential`.
        strict: of no effect, because any count is allowed.

    Returns: The schedule. Raises: as `sequential`.

    Source:
        Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019, weight stashing.
    """
    require_bools(strict=strict)
    levels, mapping, microbatches = _shape(stages, device_mapping, microbatches)
    tasks = tuple(tuple(_with_updates(own)) for own in _interleaved_tasks(levels, mapping, microbatches, training=True))
    return Schedule(name="stashed", levels=levels, device_mapping=mapping, microbatches=microbatches, tasks=tasks, weights="stashed")


def offloading(schedule: Schedule, stages: Sequence[int]) -> Schedule:
    """The schedule with values for backward in another memory: stored after forward, loaded before backward.

    Args:
        schedule: one with a backward pass.
        stages: numbers of the stages whose values are stored.

    Returns:
        The schedule with tasks for storing and loading.

    Raises:
        TypeError: for stages that are no list.
        ValueError: for a stage that does not exist, or a schedule without a backward pass.
    """
    require_schedule(schedule)
    stages = items_of("stages", stages, "a list of stages' numbers, such as [0, 1]")
    stages = [whole_number(f"stages[{index}]", stage, least=0) for index, stage in enumerate(stages)]
    if not schedule.training:
        raise ValueError(f"the schedule {schedule.name} has no backward pass: nothing is kept that could be stored")
    wrong = [stage for stage in stages if stage >= schedule.stages]
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


def _shape(stages: Stages, device_mapping: Sequence[int] | None, microbatches: int) -> tuple[Levels, tuple[int, ...], int]:
    """(levels, mapping, microbatches). Raises: TypeError, ValueError if they cannot be."""
    if isinstance(stages, Iterable) and getattr(stages, "ndim", 1) and not isinstance(stages, str):
        given = items_of("stages", stages, f"a whole number{_SIZES}")
        sizes = [whole_number(f"stages[{level}]", size, least=1, hint=_SIZES) for level, size in enumerate(given)]
        if not sizes:
            raise ValueError("stages is empty: a pipeline has at least one level")
        total = sum(sizes)
    else:
        sizes, total = None, whole_number("stages", stages, least=1, hint=_SIZES)
    microbatches = whole_number("microbatches", microbatches, least=1)
    mapping = _mapping(device_mapping, total)
    _require_bounded(total, microbatches, "stages")  # before so many are numbered
    sizes = [1] * total if sizes is None else sizes
    levels = tuple(tuple(range(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True))
    return levels, tuple(range(total)) if mapping is None else mapping, microbatches


def _mapping(device_mapping: Sequence[int] | None, stages: int) -> tuple[int, ...] | None:
    """Raises: TypeError, ValueError for what names no device for each stage."""
    if device_mapping is None:
        return None
    given = items_of("device_mapping", device_mapping, "a list with a device's index for each stage, such as [0, 1, 2]")
    mapping = tuple(
        whole_number(f"device_mapping[{stage}]", device, least=0, hint=", a device's index") for stage, device in enumerate(given)
    )
    if len(mapping) != stages:
        raise ValueError(f"device_mapping has {len(mapping)} devices, but there are {shown(stages)} stages: each stage needs one")
    devices = set(mapping)
    if max(devices) >= len(devices):
        missing = next(device for device in range(len(devices)) if device not in devices)
        raise ValueError(f"device_mapping {shown(list(mapping))} leaves out device {missing}: number the devices from 0 on")
    return mapping


def _require_bounded(stages: int, microbatches: int, name: str) -> None:
    if stages * microbatches > MOST_FORWARDS:
        raise ValueError(
            f"{name} is {shown(stages)} and microbatches {shown(microbatches)}: a schedule has at most {MOST_FORWARDS:,} stages x "
            "microbatches; give fewer of either"
        )


def _require_multiple(name: str, microbatches: int, step: int, reason: str) -> None:
    if microbatches % step:
        below, above = microbatches // step * step, -(-microbatches // step) * step
        near = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"{name}: the count of microbatches is {microbatches}, which must be a multiple of {step}: {near}; or strict=False. "
            f"{step} is {reason}; with another count, stages wait"
        )


def _rotations(ring: Sequence[set[int]]) -> list[int]:
    """How far apart microbatches may go round a ring of steps so that no two are ever on one device: the offsets, the first is 0."""
    steps_of: dict[int, list[int]] = {}
    for step, devices in enumerate(ring):
        for device in devices:
            steps_of.setdefault(device, []).append(step)
    meeting = {(one - other) % len(ring) for steps in steps_of.values() for one in steps for other in steps}  # distances at which two meet
    chosen: list[int] = []
    for offset in range(len(ring)):
        if all(offset - other not in meeting for other in chosen):
            chosen.append(offset)
    return chosen


def _offsets(levels: Levels, mapping: Sequence[int], *, training: bool) -> list[int]:
    """Those of the microbatches that go round together in `interleaved`."""
    there = [*levels, *(reversed(levels) if training else ())]
    return _rotations([{mapping[stage] for stage in members} for members in there])


def _interleaved_tasks(levels: Levels, mapping: Sequence[int], microbatches: int, *, training: bool) -> Rows:
    offsets = _offsets(levels, mapping, training=training)
    steps = 2 * len(levels) if training else len(levels)

    def slot(m: int, step: int) -> int:
        turn, index = divmod(m, len(offsets))
        return turn * steps + offsets[index] + step

    return _by_slots(levels, mapping, microbatches, slot, training=training)


def _by_slots(levels: Levels, mapping: Sequence[int], microbatches: int, slot: Callable[[int, int], int], *, training: bool) -> Rows:
    """Each device's tasks by slot; in one slot backward first, whose values are free then, and of these the last levels."""
    keyed: list[list[tuple[int, Task]]] = [[] for _ in range(max(mapping) + 1)]
    steps = 2 * len(levels) if training else len(levels)
    for m in range(microbatches):
        for step, members in enumerate([*levels, *(reversed(levels) if training else ())]):
            key, kind = (slot(m, step) + 1) * steps - step, _F if step < len(levels) else _B
            for stage in members:
                keyed[mapping[stage]].append((key, Task(stage, kind, m)))
    tasks = [[task for _, task in sorted(row, key=itemgetter(0))] for row in keyed]
    if training:
        for stage, device in enumerate(mapping):
            tasks[device].append(Task(stage, _U))
    return tuple(map(tuple, tasks))


def forward_first(levels: Levels, mapping: Sequence[int], microbatches: int, *, training: bool, stale_weights: bool = False) -> Rows:
    """Each device's tasks, with forward of stage s for microbatch m in slot m + s and backward in slot m + 2L - s; L is the last stage.

    In a slot forward comes first, and the last stage does both. Args: stale_weights: whether an update follows each backward; else one
    follows the last.
    """
    last = len(levels) - 1
    slots: list[list[tuple[int, int, Task]]] = [[] for _ in range(max(mapping) + 1)]
    for m in range(microbatches):
        for level, members in enumerate(levels):
            for stage in members:
                own, back = slots[mapping[stage]], m + 2 * last - level
                own.append((m + level, level, Task(stage, _F, m)))
                if training:
                    own.append((back, 2 * last - level + 1, Task(stage, _B, m)))
                if training and stale_weights:
                    own.append((back, 2 * last - level + 2, Task(stage, _U, m)))
    tasks = [[task for *_, task in sorted(own, key=lambda entry: entry[:2])] for own in slots]
    if training and not stale_weights:
        for stage, device in enumerate(mapping):
            tasks[device].append(Task(stage, _U))
    return tuple(map(tuple, tasks))


def _with_updates(tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        if task.kind is not _U:
            yield task
        if task.kind is _B:
            yield Task(task.stage, _U, task.microbatch)


def _zero_bubble_tasks(levels: Levels, mapping: Sequence[int], order: Rows) -> Iterator[tuple[Task, ...]]:
    """The tasks of 1F1B with backward in two, if each takes one slot: weight gradients where a device would wait or keep too much."""
    depth = len(levels)
    main = [[Task(stage, _I if kind is _B else kind, m) for stage, kind, m in row if kind is not _U] for row in order]
    position = [0] * len(main)
    found: list[list[Task]] = [[] for _ in main]
    owed: list[deque[Task]] = [deque() for _ in main]  # weight gradients that may be made
    kept = [0] * len(mapping)
    done: set[Task] = set()
    level_of = {stage: level for level, members in enumerate(levels) for stage in members}

    def ready(task: Task) -> bool:
        level = level_of[task.stage]
        if task.kind is _F:
            needs = [Task(stage, _F, task.microbatch) for stage in (levels[level - 1] if level else ())]
            return kept[task.stage] < depth and done.issuperset(needs)
        needs = [Task(stage, _I, task.microbatch) for stage in (levels[level + 1] if level + 1 < depth else ())]
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
                task = owed[device].popleft()
                kept[task.stage] -= 1
            else:
                continue
            found[device].append(task)
            now.append(task)
        done.update(now)
    for device, tasks in enumerate(found):
        yield (*tasks, *(Task(stage, _U) for stage, where in enumerate(mapping) if where == device))
