"""Whether an optimiser looks across stages."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax

from tilestep.train import Pipeline


def test_it_is_found_out_once_for_the_first_state_and_the_first_run() -> None:
    seen: list[int] = []  # how many stages' parameters

    def init(params: Any) -> Any:
        seen.append(len(jax.tree.leaves(params)))
        return optax.EmptyState()

    def update(gradients: Any, state: Any, params: Any = None) -> Any:
        del params
        return jax.tree.map(lambda gradient: -0.1 * gradient, gradients), state

    pipeline = Pipeline(
        [lambda w, x: x * w, lambda w, x: (x * w).sum()],
        optax.GradientTransformation(init, update),
        4,
        devices=jax.devices("cpu"),
        device_mapping=[0, 0],
        program="stages",
    )
    state = pipeline.init([np.float32(2), np.float32(3)])
    of_both = seen.count(2)
    assert of_both > 0
    state, _ = pipeline.step(state, np.ones((4, 1), np.float32))
    assert seen.count(2) == of_both
    np.testing.assert_allclose([float(one) for one in state.params], [2 - 0.4 * 3, 3 - 0.4 * 2], rtol=1e-6)
