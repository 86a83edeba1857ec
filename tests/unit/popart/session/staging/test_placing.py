"""Placed operators become stages: of phases, of pipelines, and by shares of the weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.staging.models import Placed, ladder, options, plan
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


def test_a_program_of_the_forward_part_keeps_stages_apart() -> None:
    chosen = options(manual=True, pipelining=True, accumulation=6)
    chosen.createImplicitPipeliningFwdOnlyProgram = True
    staging = plan(ladder([0, 0, 1], [0, 1, 2]), chosen).staging
    assert [stage.ipu for stage in staging.stages] == [0, 0, 1]


SIZE = 8


def automatic(*, ratios: Sequence[float] = (), **keywords: Any) -> popart.SessionOptions:
    chosen = options(mode=popart.VirtualGraphMode.Auto, **keywords)
    chosen.virtualGraphSplitRatios = list(ratios)
    return chosen


def meeting() -> Placed:
    """Weights a and b in one chain and c in another; both meet, and d follows."""
    builder = popart.Builder()
    first, second = (builder.addInputTensor("FLOAT", [1, SIZE], name) for name in ("first", "second"))
    a, b, c, d = (builder.addInitializedInputTensor(np.zeros((SIZE, SIZE), np.float32), name) for name in "abcd")
    left = builder.aiOnnx.matmul([builder.aiOnnx.matmul([first, a]), b])
    right = builder.aiOnnx.matmul([second, c])
    y = builder.aiOnnx.matmul([builder.aiOnnx.add([left, right]), d])
    return Placed(builder.getModelProto(), y, y)


def weights(model: Placed, num_ipus: int, chosen: popart.SessionOptions, *, training: bool = False, batches: int = 8) -> list[list[str]]:
    """The weights of each IPU."""
    staging = plan(model, chosen, training=training, num_ipus=num_ipus, batches=batches).staging
    return [sorted({name for stage in staging.stages if stage.ipu == ipu for name in stage.variables}) for ipu in range(num_ipus)]


@pytest.mark.parametrize(
    ("num_ipus", "ratios", "wanted"),
    [
        (1, (), ["abcd"]),
        (2, (), ["ab", "cd"]),
        (4, (), ["a", "b", "c", "d"]),
        (4, (0.2, 0.3, 0.2, 0.3), ["a", "b", "c", "d"]),
        (2, (0.25, 0.75), ["a", "bcd"]),
        (2, (0.75, 0.25), ["abc", "d"]),
    ],
)
def test_each_ipu_gets_its_share_of_the_weights(num_ipus: int, ratios: Sequence[float], wanted: list[str]) -> None:
    assert weights(meeting(), num_ipus, automatic(ratios=ratios)) == [list(names) for names in wanted]


def test_a_long_chain_is_cut_evenly() -> None:
    found = weights(ladder([None] * 16), 4, automatic())
    assert [len(names) for names in found] == [4] * 4
    assert found[0] == ["w0", "w1", "w2", "w3"]


def test_an_automatic_pipeline_has_a_stage_on_each_ipu() -> None:
    staging = plan(ladder([None] * 4), automatic(pipelining=True)).staging
    assert (staging.kind, [stage.ipu for stage in staging.stages]) == ("pipelined", [0, 1, 2, 3])


def test_replicas_share_the_ipus() -> None:
    staging = plan(ladder([None] * 4), automatic(replicas=2)).staging
    assert (staging.num_ipus, [stage.ipu for stage in staging.stages]) == (2, [0, 1])


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ((), r"^\[AutoVirtualGraph\] Couldn't find enough splits for 4 IPUs. Only found 2"),
        ((0.5, 0.5), "^The size of virtualGraphSplitRatios must be equal to num_ipus. It is 2, and a replica has 4 IPUs"),
        ((0.5, 0.5, 0, 0), r"^virtualGraphSplitRatios\[2\] must be in the range \(0, 1\). It is 0"),
        ((0.2, 0.2, 0.2, 0.2), r"^Sum of virtualGraphSplitRatios\[i\] must be equal to 1.0, but found 0.8"),
    ],
)
def test_what_cannot_be_shared_out_is_an_error(ratios: Sequence[float], message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        plan(ladder([None] * 2), automatic(ratios=ratios), training=False)
