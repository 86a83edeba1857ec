"""Optimisers of the domain ai.onnx.preview.training: one step each.

The inputs are the rate, the number of steps so far, then all arrays to optimise, all their gradients, and each kind of their state. The
outputs are the arrays and the state.
"""

from collections.abc import Sequence
from typing import Any, Final

import jax.numpy as jnp

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op

_DOMAIN: Final = "ai.onnx.preview.training"


def _groups(values: Sequence[Any], kinds: int) -> list[tuple[Any, ...]]:
    """For each array to optimise: itself, its gradient, and its state. Raises: ValueError if there are not `kinds` values for each."""
    count, rest = divmod(len(values), kinds)
    if rest or not count:
        raise ValueError(f"it has {len(values)} inputs after the first two, and needs {kinds} for each array")
    return [tuple(map(jnp.asarray, values[first::count])) for first in range(count)]


def _outputs(updated: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """First all arrays, then each kind of state; each has the type that it had."""
    return tuple(value for kind in zip(*updated, strict=True) for value in kind)


@op("Adagrad", domain=_DOMAIN)
def adagrad(
    call: Call, rate: Any, steps: Any, *values: Any, decay_factor: float = 0.0, epsilon: float = 1e-6, norm_coefficient: float = 0.0
) -> tuple[Any, ...]:
    """Divides each gradient by the root of the sum of its squares so far. State: that sum."""
    step = rate / (1 + steps * decay_factor)

    def update(x: Any, gradient: Any, squares: Any) -> tuple[Any, ...]:
        gradient = norm_coefficient * x + gradient
        squares = squares + gradient * gradient
        return _as(x, x - step * gradient / (jnp.sqrt(squares) + epsilon)), squares

    return _outputs([update(*group) for group in _groups(values, 3)])


@op("Adam", domain=_DOMAIN)
def adam(
    call: Call,
    rate: Any,
    steps: Any,
    *values: Any,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Any, ...]:
    """Adam. State: the running mean of the gradients, then that of their squares. Biases are corrected from step 1 on."""
    count = jnp.maximum(steps, 1)  # no division by zero in the branch that isn't taken
    step = jnp.where(steps > 0, rate * jnp.sqrt(1 - beta**count) / (1 - alpha**count), rate)

    def update(x: Any, gradient: Any, mean: Any, squares: Any) -> tuple[Any, ...]:
        gradient = norm_coefficient * x + gradient
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        moved = x - step * mean / (jnp.sqrt(squares) + epsilon)
        return _as(x, (1 - norm_coefficient_post) * moved), mean, squares

    return _outputs([update(*group) for group in _groups(values, 4)])


@op("Momentum", domain=_DOMAIN)
def momentum(
    call: Call, rate: Any, steps: Any, *values: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Any, ...]:
    """Gradient descent with momentum, "standard" or "nesterov". State: the momentum. In step 0 `beta` counts as 1."""
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"mode '{mode}', which must be 'standard' or 'nesterov'")
    weight = jnp.where(steps > 0, beta, 1.0)

    def update(x: Any, gradient: Any, speed: Any) -> tuple[Any, ...]:
        gradient = norm_coefficient * x + gradient
        moved = alpha * speed + weight.astype(gradient.dtype) * gradient
        return _as(x, x - rate * (gradient + alpha * moved if mode == "nesterov" else moved)), moved

    return _outputs([update(*group) for group in _groups(values, 3)])


def _as(x: Any, new: Any) -> Any:
    return new.astype(x.dtype)
