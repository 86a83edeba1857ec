"""Optimisers of pipelines, and what is in the host's memory."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import (
    assert_near,
    batches,
    reference,
)
from tests.unit.train.pipeline.test_options_of_pipelines import STAGES, three, trained
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.pipeline.state import JointState

# ------------------------------------------------------------------------------------------------------------------ optimisers


@pytest.mark.parametrize(
    ("name", "replicas"),
    [
        ("clipped", 1),
        *(pytest.param(name, replicas, marks=pytest.mark.slow) for name in ("masked", "finite") for replicas in (1, 2)),
        pytest.param("clipped", 2, marks=pytest.mark.slow),
    ],
)
def test_an_optimizer_that_looks_across_stages_sees_all_of_them(name: str, replicas: int) -> None:
    optimizer = {
        "clipped": optax.chain(optax.clip_by_global_norm(0.2), optax.adam(1e-2)),
        "masked": optax.masked(optax.sgd(0.1), [True, {"w": True, "b": False}, True]),  # a mask of all stages
        "finite": optax.apply_if_finite(optax.sgd(0.1), 3),
    }[name]
    if name == "masked":
        optimizer = optax.chain(optimizer, optax.clip_by_global_norm(0.2))
    pipeline = Pipeline(STAGES, optimizer, 6, replicas=replicas)
    tokens, labels = batches(1, 6)
    rows = (tokens, labels) if replicas == 1 else tuple(np.stack([leaf, leaf], 1) for leaf in (tokens, labels))
    state = trained(pipeline, rows)
    assert isinstance(state.optimizer_state, JointState)
    expected, _ = reference(STAGES, three(), optimizer, (tokens, labels), 2, "sum")
    assert_near(jax.tree.map(np.asarray, state.params), expected, 1e-4)
    with pytest.raises(ValueError, match="the optimizer looks across stages, whose updates the stale schedule does at different times"):
        Pipeline(STAGES, optimizer, 6, pipeline_schedule="stale").init(three())


def test_the_state_of_an_optimizer_that_looks_across_stages_is_where_their_parameters_are() -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(0.2), optax.adam(1e-2))
    state: Any = Pipeline([lambda p, x: x * p, lambda p, x: (x * p).sum()], optimizer, 4).init([np.float32(2), np.float32(3)])
    places = [own.devices() for own in state.params]
    assert len(set().union(*places)) == 2
    for name in ("mu", "nu"):
        assert [own.devices() for own in optax.tree.get(state.optimizer_state.state, name)] == places


@pytest.mark.slow
def test_layerwise_optimizers_update_each_stage_by_itself() -> None:
    for optimizer in (
        optax.lamb(1e-2),
        optax.adamw(1e-2),
        optax.adafactor(1e-2),
        optax.chain(optax.clip_by_block_rms(0.1), optax.sgd(0.1)),
    ):
        assert isinstance(Pipeline(STAGES, optimizer, 6).init(three()).optimizer_state, list)


def test_an_optimizer_may_depend_on_what_the_last_stage_returns() -> None:
    """A learning rate among the run's inputs, which passes through all stages."""

    def first(params: Any, rate: Any, x: Any) -> Any:
        return x * params, rate

    def last(params: Any, x: Any, rate: Any) -> Any:
        return (x * params).sum(), rate

    optimizer: Any = lambda total, rate: (optax.sgd(rate, momentum=0.5), 3 * total)  # noqa: E731
    pipeline = Pipeline([first, last], optimizer, 4, outfeed_loss=True)
    state = pipeline.init([np.float32(2), np.float32(3)])
    assert state.optimizer_state is None
    x = np.arange(4, dtype=np.float32)
    a, b, trace = 2.0, 3.0, [0.0, 0.0]
    for rate in (0.01, 0.02):
        state, losses = pipeline.step(state, x, inputs=(np.float32(rate),))
        np.testing.assert_allclose(losses, 3 * x * a * b, rtol=1e-6)
        trace = [0.5 * trace[0] + 3 * b * x.sum(), 0.5 * trace[1] + 3 * a * x.sum()]
        a, b = a - rate * trace[0], b - rate * trace[1]
        np.testing.assert_allclose([float(own) for own in state.params], [a, b], rtol=1e-6)
    pipeline = Pipeline([first, last], lambda total, rate: total, 4)
    with pytest.raises(TypeError, match=r"the optimizer's function returned .*: it must return \(a transformation of optax, the loss\)"):
        pipeline.step(pipeline.init([np.float32(2), np.float32(3)]), x, inputs=(np.float32(1),))


# ------------------------------------------------------------------------------------------------------ memory of the host
