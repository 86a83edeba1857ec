"""Placed operators become stages: of phases, and of pipelines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.popart.session.staging.models import ladder, options, plan
from tilestep import popart


def phased(phases: int, stages: int = 2, *, pipelining: bool = False) -> popart.SessionOptions:
    chosen = options(mode=popart.VirtualGraphMode.ExecutionPhases, pipelining=pipelining)
    chosen.executionPhaseSettings.phases, chosen.executionPhaseSettings.stages = phases, stages
    return chosen


@pytest.mark.parametrize(
    ("ipus", "phases", "stages", "wanted"),
    [
        ([None] * 4, [0, 1, 2, 3], 2, [(0, 0), (1, 1), (2, 0), (3, 1)]),  # two groups take turns
        ([None] * 4, [0, 1, 2, 3], 1, [(0, 0), (1, 0), (2, 0), (3, 0)]),  # one IPU
        ([0, 1, 0, 1], [0, 1, 2, 3], 2, [(0, 0), (1, 1), (2, 0), (3, 1)]),
        ([0, 3, 2, 1], [0, 1, 2, 3], 2, [(0, 0), (1, 3), (2, 2), (3, 1)]),  # any IPU of the group whose turn it is
        ([0, 2, 1, 1], [0, 0, 1, 3], 2, [(0, 0), (0, 2), (1, 1), (3, 1)]),  # two IPUs in phase 0
        ([None] * 4, [0, 2, 0, 3], 2, [(0, 0), (2, 0), (3, 1)]),  # nothing runs before what it reads
        ([None] * 4, [None] * 4, 2, [(0, 0), (1, 1), (2, 0), (3, 1)]),  # by weights
    ],
)
def test_stages_follow_the_phases(
    ipus: Sequence[int | None], phases: Sequence[int | None], stages: int, wanted: Sequence[tuple[int, int]]
) -> None:
    staging = plan(ladder(ipus, phases=phases), phased(4, stages)).staging
    assert staging.kind == "phased"
    assert [(stage.phase, stage.ipu) for stage in staging.stages] == wanted
    assert staging.loss_stage == len(wanted) - 1


def test_phases_that_do_not_exist_or_fit_are_errors() -> None:
    with pytest.raises(popart.popart_exception, match=r"^\[StreamingMemory\] Maximum phase is 1, but op Op\(.*\) has phase 2"):
        plan(ladder([None] * 3, phases=[0, 1, 2]), phased(2))
    with pytest.raises(
        popart.popart_exception, match=r"^\[StreamingMemory\] Op Op\(.*\) inconsistent execution phase 1 and virtual graph ID 0"
    ):
        plan(ladder([0, 0], phases=[0, 1]), phased(2))
    with pytest.raises(popart.popart_exception, match=r"^Either all Ops must have their virtual graph ids set"):
        plan(ladder([0, None], phases=[0, 1]), phased(2))


def test_phases_of_a_session_without_them_say_nothing() -> None:
    assert [stage.phase for stage in plan(ladder([0, 1], phases=[0, 1]), manual=True).staging.stages] == [None, None]


def test_a_pipeline_runs_where_its_phases_do() -> None:
    staging = plan(ladder([None, None], [0, 1], phases=[0, 1]), phased(2, pipelining=True)).staging
    assert (staging.kind, [stage.ipu for stage in staging.stages]) == ("pipelined", [0, 1])


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
