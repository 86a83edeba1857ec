"""What a session of several stages takes, against what it must, and the order of its tasks."""

from collections import Counter
from typing import Final

import pytest

from tests.together import each
from tests.unit.popart.session.emulation.models import Chain, emulated, off_chip, options
from tilestep.popart.session.emulation.program import cycles_of, one_by_one
from tilestep.train.schedules.tasks import SLOTS, Kind, Task

PATTERNS: Final = ("full", "singlePipeline", "replicaAndLadder")


@pytest.mark.slow
@pytest.mark.parametrize(("phases", "training"), [(8, False), (6, True)])
def test_phases_that_load_as_long_as_they_compute_are_faster_on_replica_and_ladder(phases: int, training: bool) -> None:
    chain = Chain(ipus=[0, 1] * (phases // 2), width=256, rows=128, layers=4, shared=True, phased=True)
    chosen = options(phases=phases, replicas=2, weightTensorLocationSettings=off_chip())
    full, ladder = (emulated(chain, chosen, num_ipus=4, tiles=64, pattern=pattern, training=training).cycles() for pattern in PATTERNS[::2])
    assert full > 1.3 * ladder


def _begins(stages: int, depth: int, *, training: bool = True, stale_weights: bool = False) -> dict[Task, float]:
    schedule = cycles_of(range(stages), depth, training=training, stale_weights=stale_weights)
    return dict(schedule.simulate(SLOTS).begin)


@each("stages", [2, 3, 4])
@each("more", [0, 1, 5])
def test_a_stage_keeps_what_microbatches_need_that_come_back_later(stages: int, more: int) -> None:
    last = stages - 1
    schedule = cycles_of(range(stages), 2 * last + 1 + more, training=True)
    assert schedule.stash() == tuple(2 * (last - stage) + 1 for stage in range(stages))


@pytest.mark.parametrize("stale_weights", [False, True])
def test_each_task_is_there_once_and_updates_follow_all_or_each_backward(stale_weights: bool) -> None:
    schedule = cycles_of(range(3), 6, training=True, stale_weights=stale_weights)
    count = Counter(task.kind for task in schedule.ordered())
    assert count == {Kind.FORWARD: 18, Kind.BACKWARD: 18, Kind.UPDATE: 18 if stale_weights else 3}


def test_the_last_stage_does_backward_right_behind_forward() -> None:
    row = cycles_of(range(3), 4, training=True).tasks[2]
    assert [(task.kind, task.microbatch) for task in row[:4]] == [
        (Kind.FORWARD, 0),
        (Kind.BACKWARD, 0),
        (Kind.FORWARD, 1),
        (Kind.BACKWARD, 1),
    ]


def test_inference_takes_as_many_cycles_as_microbatches_and_stages_less_one() -> None:
    begins = _begins(3, 5, training=False)
    assert max(begins.values()) + 1 == 5 + 3 - 1


def test_stages_share_an_ipu() -> None:
    schedule = cycles_of([0, 1, 0], 5, training=True)
    assert schedule.device_mapping == (0, 1, 0)
    assert {task.stage for task in schedule.tasks[0]} == {0, 2}


def test_one_by_one_keeps_one_microbatch() -> None:
    assert one_by_one([0, 1], 4, training=True).stash() == (1, 1)
