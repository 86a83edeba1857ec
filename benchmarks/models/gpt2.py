"""A block of GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners"; sizes of its smallest model)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import shapes_in

Params = dict[str, Any]

EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class Block:
    """Sizes."""

    width: int
    heads: int


SMALL = Block(width=768, heads=12)


def shapes(model: Block, dtype: Any = jnp.float32) -> Params:
    """Shapes of a block's parameters."""
    width = model.width

    array, dense = shapes_in(dtype)
    norm = {"scale": array(width), "bias": array(width)}
    return {
        "norm1": norm,
        "qkv": dense(width, 3 * width),
        "out": dense(width, width),
        "norm2": norm,
        "up": dense(width, 4 * width),
        "down": dense(4 * width, width),
    }


def forward(model: Block, params: Params, x: jax.Array) -> jax.Array:
    """[batch, tokens, width] of the same."""
    x = x + _attention(model, params, _norm(params["norm1"], x))
    return x + _dense(params["down"], jax.nn.gelu(_dense(params["up"], _norm(params["norm2"], x))))


def _attention(model: Block, params: Params, x: jax.Array) -> jax.Array:
    batch, tokens, width = x.shape
    size = width // model.heads
    qkv = _dense(params["qkv"], x).reshape(batch, tokens, 3, model.heads, size)
    queries, keys, values = (qkv[:, :, part] for part in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries * size**-0.5, keys)
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min))
    return _dense(params["out"], jnp.einsum("bhqk,bkhd->bqhd", weights, values).reshape(batch, tokens, width))


def _norm(params: Params, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON) * params["scale"] + params["bias"]


def _dense(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]
