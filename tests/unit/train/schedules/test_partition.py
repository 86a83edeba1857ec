"""Cuts of a list of layers into stages: the best there are, and what layers cost."""

import io
import itertools
import random
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from rich.console import Console

import tilestep
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.schedules.partition import LayerCost, best_partition, pipeline_partition


def layer_costs(*work: float, passing: Sequence[float] | None = None) -> list[LayerCost]:
    return [LayerCost(name=f"l{number}", work=own, passing=0.0 if passing is None else passing[number]) for number, own in enumerate(work)]


def by_hand(costs: Sequence[LayerCost], cuts: Sequence[int]) -> list[float]:
    return [
        sum(cost.work for cost in costs[first:after])
        + (costs[first - 1].passing if first else 0)
        + (costs[after - 1].passing if after < len(costs) else 0)
        for first, after in itertools.pairwise(cuts)
    ]


@pytest.mark.slow
def test_it_is_the_best_of_all() -> None:
    """Whole numbers: sums are exact, and there are ties."""
    rng = random.Random(0)
    for _ in range(300):
        count = rng.randint(1, 8)
        costs = layer_costs(*(rng.randint(0, 9) for _ in range(count)), passing=[rng.choice([0, 1, 5]) for _ in range(count)])
        devices = rng.randint(1, 5)
        every = [(0, *inner, count) for stages in range(1, devices + 1) for inner in itertools.combinations(range(1, count), stages - 1)]
        rank = {cuts: (max(found), len(cuts), sum(cost**2 for cost in found)) for cuts in every for found in [by_hand(costs, cuts)]}
        partition = best_partition(costs, devices)
        assert rank[partition.cuts] == min(rank.values())
        assert list(partition.stage_costs) == by_hand(costs, partition.cuts)


def test_equal_layers_are_dealt_out_evenly() -> None:
    partition = best_partition(layer_costs(*[1.0] * 12), 4)
    assert (partition.cuts, partition.balance, partition.largest) == ((0, 3, 6, 9, 12), 1, 3)
    assert best_partition(layer_costs(0.0, 0.0), 2).balance == 1


def test_a_cut_that_costs_more_than_it_spares_is_not_made() -> None:
    assert best_partition(layer_costs(1, 1, 1, 1, passing=[9, 1, 9, 0]), 4).cuts == (0, 2, 4)
    assert best_partition(layer_costs(1, 1, passing=[9, 0]), 2).cuts == (0, 2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no layers"):
        best_partition([], 2)
    with pytest.raises(ValueError, match="stages is 0"):
        best_partition(layer_costs(1), 0)
    with pytest.raises(ValueError, match="work of the layer l0 is -1: it must be a number, 0 or more"):
        layer_costs(-1)
    with pytest.raises(ValueError, match="passing of the layer l0 is nan"):
        layer_costs(1, passing=[float("nan")])
    with pytest.raises(ValueError, match="there are 1 entries, but the partition is of 2 layers"):
        best_partition(layer_costs(1, 1), 2).split([0])
    cpu = jax.devices("cpu")
    with pytest.raises(ValueError, match="there are 1 layers and 0 entries of params"):
        pipeline_partition([dense], [], [np.float32(0)], cpu)
    with pytest.raises(ValueError, match="devices is empty"):
        pipeline_partition([dense], [np.float32(0)], [np.float32(0)], [])
    with pytest.raises(ValueError, match="the profile has no runs on platform 'ipu'"):
        pipeline_partition([dense], [matrix(3, 3)], [matrix(2, 3), np.zeros(2, np.int32)], cpu, profile=tilestep.profile)
    with pytest.raises(TypeError, match="dot_general") as caught:
        pipeline_partition([dense, dense], [matrix(3, 4), matrix(3, 4)], [matrix(2, 3), np.zeros(2, np.int32)], cpu)
    assert any(note.startswith("raised by layer 1 (dense), with arguments ['float32[2,4]'") for note in caught.value.__notes__)


def matrix(*shape: int) -> np.ndarray:
    return np.full(shape, 0.01, np.float32)


def embed(params: Any, tokens: Any, label: Any) -> Any:
    return params[tokens], label


def dense(params: Any, x: Any, label: Any) -> Any:
    return jnp.tanh(x @ params), label


def loss(params: Any, x: Any, label: Any) -> Any:
    scores = jax.nn.log_softmax(x @ params)
    return -jnp.take_along_axis(scores, label[:, None], 1).mean()


LAYERS = [embed, dense, dense, dense, dense, loss]
WIDTHS = [64, 64, 512, 512, 64]
PARAMS = [matrix(32, WIDTHS[0]), *(matrix(a, b) for a, b in itertools.pairwise(WIDTHS)), matrix(64, 8)]
TOKENS = np.arange(16, dtype=np.int32) % 8


def test_stages_of_a_partition_are_those_of_a_pipeline() -> None:
    """And train as the layers at once do."""
    partition = best_partition(layer_costs(1, 1, 1, 1, 1, 1), 1)
    one_stage = Pipeline(partition.stages(LAYERS), optax.sgd(0.5), 2, device_mapping=[0])
    halves = best_partition(layer_costs(1, 1, 1, 1, 1, 1), 2)
    pipeline = Pipeline(halves.stages(LAYERS), optax.sgd(0.5), 4, device_mapping=[0, 0])
    assert [stage.__name__ for stage in halves.stages(LAYERS)] == ["embed+dense+dense", "dense+dense+loss"]
    batch = np.stack([TOKENS] * 4)
    state, losses = pipeline.step(pipeline.init(halves.split(PARAMS)), (batch, batch))
    other, expected = one_stage.step(one_stage.init(partition.split(PARAMS)), (batch[:2], batch[:2]))
    np.testing.assert_allclose(losses[:2], expected, rtol=1e-6)
    assert jax.tree.structure(state.params) != jax.tree.structure(other.params)
    assert len(jax.tree.leaves(state.params)) == len(jax.tree.leaves(other.params))


def test_layers_are_measured_on_any_platform() -> None:
    partition = pipeline_partition(LAYERS, PARAMS, (TOKENS, TOKENS), jax.devices("cpu")[:1])
    assert (partition.cuts, partition.unit) == ((0, 6), "s")
    assert all(cost.work > 0 for cost in partition.costs)


def test_the_balance_is_shown() -> None:
    text = io.StringIO()
    Console(file=text, width=100).print(best_partition(layer_costs(2, 1, 1, 3), 3, unit="cycles"))
    rows = [line.split("│")[1:-1] for line in text.getvalue().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["0", "0-0: l0", "2", "66.7%", "#" * 13],
        ["1", "1-2: l1, l2", "2", "66.7%", "#" * 13],
        ["2", "3-3: l3", "3", "100.0%", "#" * 20],
    ]
    assert "3 stages, balance 77.8%" in text.getvalue()
