"""The small CNN of a published tutorial on data loading (graphcore/examples@3cc8f81 tutorials/pytorch/efficient_data_loading)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.training import cross_entropy

Params = dict[str, Any]

IMAGE = 128
CLASSES = 10
_GROUPS = 3
_FLAT = 12 * 59 * 59  # channels x rows x columns after two convolutions and a pool


def shapes(dtype: Any = jnp.float32) -> Params:
    """Shapes of all parameters."""

    def layer(*kernel: int) -> Params:
        return {"kernel": jax.ShapeDtypeStruct(kernel, dtype), "bias": jax.ShapeDtypeStruct(kernel[-1:], dtype)}

    channels = jax.ShapeDtypeStruct((12,), dtype)
    return {
        "conv1": layer(3, 3, 1, 5),
        "conv2": layer(5, 5, 5, 12),
        "norm": {"scale": channels, "bias": channels},
        "dense1": layer(_FLAT, 100),
        "dense2": layer(100, CLASSES),
    }


def forward(params: Params, images: jax.Array) -> jax.Array:
    """[batch, CLASSES] logits of [batch, IMAGE, IMAGE, 1] images."""
    x = jax.nn.relu(_conv(params["conv1"], images))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = _group_norm(params["norm"], jax.nn.relu(_conv(params["conv2"], x)))
    x = jax.nn.relu(_dense(params["dense1"], x.reshape(len(images), -1)))
    return _dense(params["dense2"], x)


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy. (The tutorial's log-softmax runs over the batch, which costs the same.)"""
    return cross_entropy(forward(params, images), labels)


def _conv(params: Params, x: jax.Array) -> jax.Array:
    y = jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + params["bias"]


def _dense(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]


def _group_norm(params: Params, x: jax.Array) -> jax.Array:
    batch, rows, columns, channels = x.shape
    grouped = x.reshape(batch, rows * columns, _GROUPS, channels // _GROUPS)
    mean = grouped.mean((1, 3), keepdims=True)
    variance = jnp.square(grouped - mean).mean((1, 3), keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * params["scale"] + params["bias"]
