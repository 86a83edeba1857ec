"""The order of a session's tasks, as the original has it."""

from __future__ import annotations

from collections.abc import Sequence

from tilestep.train.schedules import Schedule, Task
from tilestep.train.schedules.schedule import Kind
from tilestep.train.schedules.standard import sequential, stale


def cycles_of(ipus: Sequence[int], microbatches: int, *, training: bool, stale_weights: bool = False) -> Schedule:
    """Pipeline cycles: stage s does forward of microbatch m in cycle m + s, and backward in cycle m + 2L - s, with the last stage L.

    So there are D + S - 1 cycles for D microbatches, with S = 2L + 1 stages in training and L + 1 in inference. Stage s keeps what 2(L - s)
    + 1 microbatches need for backward. In a cycle forward comes first, and the last stage does both.

    Args:
        ipus: of each stage.
        stale_weights: whether an update follows each backward; else one follows the last.

    Source: PopART's docs, "Pipelined execution", and transforms/pipeline.cpp (PipelineInfo: fillPhase, flushPhase).
    """
    if training and stale_weights:
        return stale(len(ipus), microbatches, device_mapping=ipus)
    last = len(ipus) - 1
    slots: list[list[tuple[int, int, Task]]] = [[] for _ in range(max(ipus) + 1)]
    for m in range(microbatches):
        for stage, ipu in enumerate(ipus):
            slots[ipu].append((m + stage, stage, Task(stage, Kind.FORWARD, m)))
            if training:
                slots[ipu].append((m + 2 * last - stage, 2 * last - stage + 1, Task(stage, Kind.BACKWARD, m)))
    tasks = [[task for *_, task in sorted(own, key=lambda entry: entry[:2])] for own in slots]
    if training:
        for stage, ipu in enumerate(ipus):
            tasks[ipu].append(Task(stage, Kind.UPDATE))
    return Schedule(
        name="pipeline cycles",
        levels=tuple((stage,) for stage in range(len(ipus))),
        device_mapping=tuple(ipus),
        microbatches=microbatches,
        tasks=tuple(map(tuple, tasks)),
    )


def one_by_one(ipus: Sequence[int], microbatches: int, *, training: bool) -> Schedule:
    """One microbatch after the other, and one stage after the other."""
    return sequential(len(ipus), microbatches, training=training, device_mapping=ipus, strict=False)
