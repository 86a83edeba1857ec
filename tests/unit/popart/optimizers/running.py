"""Runs an optimizer's rule over batches of gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.optimizers import Optimizer, OptimizerState, UpdateContext

UPDATES = 20
START = np.random.default_rng(0).normal(size=(3, 4))
BATCHES = {count: np.random.default_rng(count).normal(size=(UPDATES, count, 3, 4)) for count in (1, 3)}


def context(params: dict[str, jax.Array], **more: Any) -> UpdateContext:
    return UpdateContext(params={id: jax.ShapeDtypeStruct(w.shape, w.dtype) for id, w in params.items()}, **more)


def trained(
    optimizer: Optimizer, start: np.ndarray, batches: np.ndarray, *, dtype: Any = np.float32, **more: Any
) -> tuple[np.ndarray, OptimizerState]:
    """The weight `w` after each update, [updates, ...], and the last state; one program for all updates.

    Args:
        batches: [updates, microbatches, ...] gradients, not scaled by the loss.
    """
    params = {"w": jnp.asarray(start, dtype)}
    rule = optimizer.rule(context(params, accumulation_factor=batches.shape[1], **more))

    def batch(carry: tuple[dict[str, jax.Array], OptimizerState], gradients: jax.Array) -> tuple[Any, jax.Array]:
        weights, state = carry
        for gradient in gradients:
            scaled = gradient.astype(jnp.float32) * rule.loss_scale(state)
            state = rule.accumulate(state, {"w": scaled.astype(dtype)})
        weights, state = rule.update(state, weights)
        return (weights, state), weights["w"]

    (_, state), weights = jax.jit(lambda first, all: jax.lax.scan(batch, first, all))(
        (params, rule.init(params)), jnp.asarray(batches, jnp.float32)
    )
    return np.asarray(weights), state


def assert_close(actual: np.ndarray, expected: np.ndarray, *, tolerance: float = 1e-5) -> None:
    """Each array within `tolerance` of the expected array's largest value."""
    for update, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max(), f"update {update}"
