"""Norms of order p, with gradients that are finite where a norm is zero."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def power(x: Any, p: float) -> Any:
    """|x| to the power of p."""
    if p == 2:
        return x * x
    return jax.lax.integer_pow(jnp.abs(x), int(p)) if p == int(p) else jnp.abs(x) ** p


def root(total: Any, p: float) -> Any:
    """The p-th root of what isn't negative; its gradient is 0 at 0."""
    if p == 1:
        return total
    zero = total == 0
    positive = jnp.where(zero, 1, total)
    return jnp.where(zero, 0, jnp.sqrt(positive) if p == 2 else positive ** (1 / p))


def checked_order(p: float, least: float = 1) -> float:
    """Raises: ValueError if p is below `least`."""
    if not p >= least:
        raise ValueError(f"p is {p}, and must be at least {least}")
    return p
