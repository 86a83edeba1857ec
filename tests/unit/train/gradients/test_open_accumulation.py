"""Accumulations of which only the program knows how many microbatches they take: a schedule of counts, and skipped microbatches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import InfeedQueue, gradient_accumulation, repeat

ROWS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
W = np.ones(4, np.float32)


def counts(updates: Any) -> Any:
    """1, 2, 3, 3, ... microbatches."""
    return jnp.minimum(updates + 1, 3)


def trained(optimizer: Any, rows: np.ndarray) -> Any:
    def body(carry: Any, x: Any) -> Any:
        w, state = carry
        updates, state = optimizer.update(jax.grad(lambda w: ((x * w).sum() - 1) ** 2)(w), state, w)
        return optax.apply_updates(w, updates), state

    return repeat(len(rows), body, (W, optimizer.init(W)), InfeedQueue(list(rows)))


def by_optax(rows: np.ndarray, **options: Any) -> Any:
    steps = optax.MultiSteps(optax.adam(0.1), **options)

    @jax.jit
    def step(w: Any, state: Any, x: Any) -> Any:
        updates, state = steps.update(jax.grad(lambda w: ((x * w).sum() - 1) ** 2)(w), state, w)
        return optax.apply_updates(w, updates), state

    w, state = jnp.asarray(W), steps.init(jnp.asarray(W))
    for x in rows:
        w, state = step(w, state, x)
    return w, state


def test_a_schedule_of_counts_is_that_of_optax() -> None:
    """29 steps end amid an update, which is nobody's fault here."""
    w, state = trained(gradient_accumulation(optax.adam(0.1), counts, reduction="mean"), ROWS[:29])
    expected, there = by_optax(ROWS[:29], every_k_schedule=counts)
    np.testing.assert_allclose(w, expected, rtol=2e-5)
    assert (int(state.updates), int(state.microbatch)) == (int(there.gradient_step), int(there.mini_step)) == (10, 2)


@pytest.mark.parametrize("count", [2, counts])
def test_microbatches_that_are_not_finite_are_left_out(count: Any) -> None:
    """As if they were not there; optax skips them likewise."""
    spoiled = np.insert(ROWS[:20], [0, 5, 5, 11], [[np.nan] * 4, [np.inf] * 4, [np.nan, 0, 0, 0], [np.nan] * 4], axis=0)
    w, state = trained(gradient_accumulation(optax.adam(0.1), count, reduction="mean", skip_nonfinite=True), spoiled.astype(np.float32))
    expected, there = by_optax(ROWS[:20], every_k_schedule=count)
    np.testing.assert_allclose(w, expected, rtol=2e-5)
    assert (int(state.updates), int(state.microbatch)) == (int(there.gradient_step), int(there.mini_step))


def test_what_a_schedule_returns_is_checked() -> None:
    with pytest.raises(TypeError, match=r"count returned float32\[\]: .* returns one whole number"):
        trained(gradient_accumulation(optax.sgd(0.1), lambda updates: updates * 0.5), ROWS[:2])
    with pytest.raises(ValueError, match="replicas that leave out different microbatches would not update together"):
        gradient_accumulation(optax.sgd(0.1), 2, skip_nonfinite=True, replica_reduction="mean")
    one, other = gradient_accumulation(optax.sgd(0.1), 2), gradient_accumulation(optax.sgd(0.1), counts)
    with pytest.raises(ValueError, match="the state accumulates 2 microbatches for each update, but the optimiser a scheduled number"):
        other.update(W, one.init(W), W)
