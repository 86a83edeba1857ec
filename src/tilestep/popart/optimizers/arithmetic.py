"""Arithmetic of updates, with the types that the original's operators have.

A float16 tensor that something is added to keeps its type, and the sum is made in float32, as poplibs' scaledAddTo does.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Number = float | jax.Array
Arrays = dict[str, jax.Array]  # by tensor id


def scaled_add(target: jax.Array, addend: jax.Array, scale: Number = 1.0, *, keep: Number = 1.0) -> jax.Array:
    """`keep * target + scale * addend`, in the type of `target`."""
    left, right = target.astype(jnp.float32), addend.astype(jnp.float32)
    if not _is_one(keep):
        left = left * keep
    if not _is_one(scale):
        right = right * scale
    return (left + right).astype(target.dtype)


def scaled(array: jax.Array, scale: Number) -> jax.Array:
    """`scale * array`, in the array's type; the scale is rounded to it first."""
    if _is_one(scale):
        return array
    return array * as_type(scale, array)


def as_type(number: Number, array: jax.Array) -> Number:
    """A number for arithmetic in the type of `array`: one that is part of the program is rounded to it anyway."""
    return number.astype(array.dtype) if isinstance(number, jax.Array) else number


def _is_one(number: Number) -> bool:
    return isinstance(number, float) and number == 1.0


def moving_average(average: jax.Array, value: jax.Array, keep: Number) -> jax.Array:
    """`keep * average + (1 - keep) * value`, in the type of `average`."""
    return scaled(average, keep) + scaled(value.astype(average.dtype), 1.0 - keep)


def moving_average_of_squares(average: jax.Array, value: jax.Array, keep: Number) -> jax.Array:
    """`keep * average + (1 - keep) * value ** 2`, in the type of `average`."""
    cast = value.astype(average.dtype)
    return scaled(average, keep) + scaled(cast, 1.0 - keep) * cast
