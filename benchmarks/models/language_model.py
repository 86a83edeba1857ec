"""A language model of 217 million parameters in plain JAX and float32, trained by AdamW, as layers: an embedding, 12 blocks, the loss."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

WIDTH, BLOCKS, HEADS, VOCABULARY, CONTEXT = 1024, 12, 16, 32_000, 512


def layers() -> dict[str, Any]:
    """`layers`, `params`, `optimizer` and `microbatch` of `plan_training`."""
    block = {"norm1": _array(WIDTH), "qkv": _array(WIDTH, 3 * WIDTH), "out": _array(WIDTH, WIDTH), "norm2": _array(WIDTH)}
    block |= {"up": _array(WIDTH, 4 * WIDTH), "down": _array(4 * WIDTH, WIDTH)}
    tables = {"words": _array(VOCABULARY, WIDTH), "positions": _array(CONTEXT, WIDTH)}
    return {
        "layers": [embed, *[transformed] * BLOCKS, loss],
        "params": [tables, *[block] * BLOCKS, {"norm": _array(WIDTH), "words": _array(WIDTH, VOCABULARY)}],
        "optimizer": optax.adamw(3e-4),
        "microbatch": (jax.ShapeDtypeStruct((1, CONTEXT + 1), jnp.int32),),
    }


def embed(params: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of tokens `[samples, context + 1]`: activations `[samples, context, width]`, and the next tokens."""
    return params["words"][tokens[:, :-1]] + params["positions"], tokens[:, 1:]


def transformed(params: Any, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A block: causal attention and a feed-forward net."""
    samples, context, width = x.shape
    qkv = (_norm(params["norm1"], x) @ params["qkv"]).reshape(samples, context, HEADS, 3, width // HEADS)  # heads may be on unlike IPUs
    queries, keys, values = jnp.moveaxis(qkv, (3, 2), (0, 2))
    scores = queries @ keys.swapaxes(-1, -2) * (width // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((context, context), bool)), scores, -1e9))
    x = x + (weights @ values).swapaxes(1, 2).reshape(x.shape) @ params["out"]
    return x + jax.nn.gelu(_norm(params["norm2"], x) @ params["up"]) @ params["down"], labels


def loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    scores = _norm(params["norm"], x) @ params["words"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def _norm(scale: jax.Array, x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def _array(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)
