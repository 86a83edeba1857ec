"""Runs an optimizer's rule over batches of gradients."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.together import compiled
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
    function, given = program(optimizer, start, batches, dtype=dtype, **more)
    weights, state = jax.jit(function)(given)
    return np.asarray(weights), state


def program(
    optimizer: Optimizer, start: np.ndarray, batches: np.ndarray, *, dtype: Any = np.float32, **more: Any
) -> tuple[Callable[[Any], tuple[Any, OptimizerState]], Any]:
    """What `trained` compiles, and the arrays that it gets."""
    params = {"w": np.asarray(start, dtype)}
    rule = optimizer.rule(context(params, accumulation_factor=batches.shape[1], **more))

    def batch(carry: tuple[dict[str, jax.Array], OptimizerState], gradients: jax.Array) -> tuple[Any, jax.Array]:
        weights, state = carry
        for gradient in gradients:
            scaled = gradient.astype(jnp.float32) * rule.loss_scale(state)
            state = rule.accumulate(state, {"w": scaled.astype(dtype)})
        weights, state = rule.update(state, weights)
        return (weights, state), weights["w"]

    def run(given: tuple[Any, Any]) -> tuple[Any, OptimizerState]:
        params, batches = given
        (_, state), weights = jax.lax.scan(batch, (params, rule.init(params)), batches)
        return weights, state

    return run, (params, batches.astype(np.float32))


def follows(expected: Iterable[np.ndarray], optimizer: Optimizer, batches: np.ndarray, **more: Any) -> None:
    """Holds if the weights are `expected` after each update from START. Args: more: as those of `trained`."""
    wanted = np.stack(list(expected))
    compiled(*program(optimizer, START, batches, **more), lambda found: assert_close(np.asarray(found[0]), wanted))


def assert_close(actual: np.ndarray, expected: np.ndarray, *, tolerance: float = 1e-5) -> None:
    """Each array within `tolerance` of the expected array's largest value."""
    for update, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
        assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max(), f"update {update}"
