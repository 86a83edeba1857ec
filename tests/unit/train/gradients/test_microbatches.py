"""A batch cut into microbatches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import Pipeline, microbatches_of


def test_rows_stay_in_order_and_what_is_filled_up_is_told() -> None:
    found, mask = microbatches_of({"x": np.arange(7), "y": np.arange(14).reshape(7, 2)}, 3)
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 0, 0]]
    assert mask.tolist() == [[True] * 3, [True] * 3, [True, False, False]]
    assert found["y"].shape == (3, 3, 2)
    found, mask = microbatches_of(np.arange(4), 2, replicas=2)
    assert (found.tolist(), mask.all()) == ([[[0], [1]], [[2], [3]]], True)


@pytest.mark.parametrize("batch", [(), np.float32(1), np.zeros((0, 2)), (np.zeros(3), np.zeros(4))])
def test_what_has_no_rows_is_refused(batch: Any) -> None:
    with pytest.raises(ValueError, match="batch has arrays of shapes"):
        microbatches_of(batch, 2)


@pytest.mark.slow
def test_an_uneven_batch_trains_as_the_batch_itself() -> None:
    def first(w: Any, x: Any, mask: Any) -> Any:
        return jnp.tanh(x @ w), mask

    def last(w: Any, x: Any, mask: Any) -> Any:
        return ((x @ w) ** 2 * mask).sum() / 7

    rng = np.random.default_rng(0)
    batch, w, v = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32), np.ones(3, np.float32)
    pipeline = Pipeline([first, last], optax.sgd(0.1), 4, device_mapping=[0, 0])
    x, mask = microbatches_of(batch, 4)
    state, _ = pipeline.step(pipeline.init([w, v]), (x, mask))
    gradients = jax.grad(lambda own: ((jnp.tanh(batch @ own[0]) @ own[1]) ** 2).sum() / 7)([w, v])
    for found, before, gradient in zip(state.params, (w, v), gradients, strict=True):
        np.testing.assert_allclose(found, before - 0.1 * gradient, rtol=1e-5)
