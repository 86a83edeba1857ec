"""Stages of a pipeline: their numbers, those that become one, and that of the loss."""

from __future__ import annotations

import pytest

from tests.unit.popart.session.staging.models import ladder, options, plan


@pytest.mark.parametrize(
    ("ipus", "stages", "merged"),
    [
        ([0, 1, 2], [0, 1, 2], [0, 1, 2]),
        ([0, 0, 1], [0, 1, 2], [0, 0, 1]),  # neighbours on one IPU
        ([0, 0, 1, 1], [0, 1, 2, 3], [0, 0, 1, 1]),
        ([0, 1, 0], [0, 1, 2], [0, 1, 2]),  # an IPU that a microbatch visits twice
        ([1, 0, 1], [0, 1, 2], [0, 1, 2]),
        ([0, 0, 1], [0, 0, 1], [0, 0, 1]),
        ([0, 1], [1, 2], [0, 1]),  # the original numbers them anew
    ],
)
def test_neighbouring_stages_of_one_ipu_are_one(ipus: list[int], stages: list[int], merged: list[int]) -> None:
    staging = plan(ladder(ipus, stages), manual=True, pipelining=True).staging
    assert staging.kind == "pipelined"
    assert [stage.number for stage in staging.stages] == list(range(max(merged) + 1))
    stage_of = {position: stage.number for stage in staging.stages for position in stage.nodes}
    assert [stage_of[layer] for layer in range(len(ipus))] == merged
    assert [stage.ipu for stage in staging.stages] == [ipus[merged.index(number)] for number in range(max(merged) + 1)]
    assert staging.loss_stage == max(merged)


def test_a_merged_pipeline_needs_the_depth_of_what_is_left() -> None:
    assert len(plan(ladder([0, 0, 1], [0, 1, 2]), manual=True, pipelining=True, batches=3).staging.stages) == 2


def test_a_program_of_the_forward_part_keeps_stages_apart() -> None:
    chosen = options(manual=True, pipelining=True, accumulation=6)
    chosen.createImplicitPipeliningFwdOnlyProgram = True
    staging = plan(ladder([0, 0, 1], [0, 1, 2]), chosen).staging
    assert [stage.ipu for stage in staging.stages] == [0, 0, 1]


def test_replicas_share_the_device() -> None:
    staging = plan(ladder([0, 1]), options(manual=True, pipelining=True, replicas=2)).staging
    assert staging.num_ipus == 2
