"""Training steps, written by hand so that a benchmark holds nothing that its reader does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Loss = Callable[..., jax.Array]


def sgd(loss: Loss, params: Any, *batch: jax.Array, rate: float) -> tuple[Any, jax.Array]:
    """New parameters, and the loss of the old ones."""
    value, gradients = jax.value_and_grad(loss)(params, *batch)
    return jax.tree.map(lambda param, gradient: param - rate * gradient, params, gradients), value


def momentum(loss: Loss, state: tuple[Any, Any], *batch: jax.Array, rate: float, decay: float = 0.9) -> tuple[tuple[Any, Any], jax.Array]:
    """New (parameters, velocities), and the loss of the old ones."""
    params, velocities = state
    value, gradients = jax.value_and_grad(loss)(params, *batch)
    velocities = jax.tree.map(lambda velocity, gradient: decay * velocity + gradient, velocities, gradients)
    return (jax.tree.map(lambda param, velocity: param - rate * velocity, params, velocities), velocities), value


def accumulated_momentum(
    loss: Loss, state: tuple[Any, Any], *batch: jax.Array, rate: float, count: int, decay: float = 0.9
) -> tuple[tuple[Any, Any], jax.Array]:
    """As `momentum`, but the update takes the sum of the gradients of `count` batches (here: of one batch again and again)."""
    params, velocities = state

    def add(total: Any, _: None) -> tuple[Any, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(jnp.add, total, gradients), value

    gradients, losses = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), length=count)
    velocities = jax.tree.map(lambda velocity, gradient: decay * velocity + gradient, velocities, gradients)
    return (jax.tree.map(lambda param, velocity: param - rate * velocity, params, velocities), velocities), losses[-1]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over the batch, in float32. Args: labels: numbers of classes, or rows of probabilities."""
    log_probabilities = jax.nn.log_softmax(logits.astype(jnp.float32))
    if labels.ndim == logits.ndim:
        return -(labels * log_probabilities).sum(-1).mean()
    return -jnp.take_along_axis(log_probabilities, labels[..., None], -1).mean()
