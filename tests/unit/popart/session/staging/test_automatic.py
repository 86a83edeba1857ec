"""VirtualGraphMode.Auto: each IPU gets its share of the weights, and chains of operators are cut where everything passes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.staging.models import Placed, ladder, options, plan
from tilestep import popart

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
