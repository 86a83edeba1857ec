"""Layers that networks for images share."""

from __future__ import annotations

from typing import Any

import jax

Params = dict[str, Any]

LABELS = ("NHWC", "HWIO", "NHWC")
HALVED = (2, 2)


def conv(kernel: jax.Array, x: jax.Array, stride: int = 1, padding: Any = "SAME", groups: int = 1) -> jax.Array:
    """Args: kernel: [rows, columns, inputs / groups, outputs]; x: [batch, rows, columns, inputs]."""
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=LABELS, feature_group_count=groups)


def max_pool(x: jax.Array, size: int, padding: str) -> jax.Array:
    """The largest of each window of size x size, with a stride of 2, of [batch, rows, columns, channels]."""
    return jax.lax.reduce_window(x, -float("inf"), jax.lax.max, (1, size, size, 1), (1, 2, 2, 1), padding)


def array(dtype: Any, *dims: int) -> jax.ShapeDtypeStruct:
    """Shape of a parameter."""
    return jax.ShapeDtypeStruct(dims, dtype)
