"""A GPT as layers for `tilestep.plan_training`, each divided over the IPUs of a stage: an embedding, blocks of layers, the loss.

The layers of a block have stacked parameters, and a scan walks them, so that the block's code is that of one layer. Each layer's
activations are computed again in the backward pass. Between layers an IPU has a part of the tokens of each sequence; in a layer, a part of
the heads and of the inner width (Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", figure 5).
Scores of attention exist for some queries at a time, and inner values for one sequence at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P

from benchmarks.models.gpt import Gpt
from tilestep.train.replicas.replicas import SHARD_AXIS

GPT3_2_7B = Gpt(layers=32, width=2560, heads=32)  # table 2.1 there
GPT3_13B = Gpt(layers=40, width=5120, heads=40)  # with 5,140 there, which 40 heads do not divide

_EPSILON = 1e-5
_QUERIES = 256  # whose scores exist at a time, and of which the loss is computed at a time
_OF_HEADS = 3  # products of attention with x: queries, keys, values
_PARTS = 4  # of the inner width: arrays of all products are equally large, because an update has one array's moments in the tiles


def layers(model: Gpt, blocks: int) -> dict[str, Any]:
    """`layers`, `params`, `sharding`, `optimizer` and `microbatch` of `plan_training`.

    Args: blocks: into which the model's layers are divided; they must divide their number.
    """
    each, width, shard = model.layers // blocks, model.width, SHARD_AXIS

    def stack(*dims: int) -> jax.ShapeDtypeStruct:
        return _half(each, *dims)

    norm, whole = {"scale": stack(width), "bias": stack(width)}, {"scale": P(), "bias": P()}
    square, columns, rows = stack(width, width), P(None, None, shard), P(None, shard)
    block = {
        "norm1": norm,
        "heads": [square] * _OF_HEADS,
        "out": square,
        "norm2": norm,
        "up": [square] * _PARTS,
        "up_bias": stack(_PARTS, width),
        "down": [square] * _PARTS,
        "down_bias": stack(width),
    }
    cut = {
        "norm1": whole,
        "heads": [columns] * _OF_HEADS,
        "out": rows,
        "norm2": whole,
        "up": [columns] * _PARTS,
        "up_bias": P(None, None, shard),
        "down": [rows] * _PARTS,
        "down_bias": P(),
    }
    own_norm = {"scale": _half(width), "bias": _half(width)}
    tables = {"words": _half(model.vocabulary, width), "positions": _half(model.context, width)}
    return {
        "layers": [_embed, *[_block(model)] * blocks, _loss(model)],
        "params": [tables, *[block] * blocks, {"norm": own_norm, "words": _half(model.vocabulary, width)}],
        "sharding": [{"words": P(None, shard), "positions": P(None, shard)}, *[cut] * blocks, {"norm": whole, "words": P(shard)}],
        "optimizer": in_float(optax.adam(1.6e-4, b1=0.9, b2=0.95)),
        "microbatch": (jax.ShapeDtypeStruct((1, model.context + 1), jnp.int32),),
    }


def in_float(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same with its state, and all that it computes, in float32."""

    def up(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)

    def update(gradients: Any, state: Any, params: Any = None) -> Any:
        return inner.update(up(gradients), state, up(params))

    return optax.GradientTransformation(lambda params: inner.init(up(params)), update)


def _embed(params: Any, words: jax.Array) -> Any:
    x = params["words"][words[:, :-1]] + params["positions"]
    return _by_tokens(x), words[:, 1:]


def _block(model: Gpt) -> Callable[..., Any]:
    def sequence(own: Any, x: jax.Array) -> jax.Array:
        x = x + _by_tokens(_attention(model, own, _whole(_norm(own["norm1"], x))))
        y = _whole(_norm(own["norm2"], x))
        inner = jax.nn.gelu(jnp.einsum("td,dje->tje", y, jnp.stack(own["up"], 1)) + own["up_bias"])
        return x + _by_tokens(jnp.einsum("tje,jed->td", inner, jnp.stack(own["down"]))) + own["down_bias"]

    def layer(x: jax.Array, own: Any) -> tuple[jax.Array, None]:
        return jax.lax.map(jax.checkpoint(functools.partial(sequence, own)), x), None

    def block(params: Any, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.scan(layer, x, params)[0], labels

    return block


def _attention(model: Gpt, own: Any, x: jax.Array) -> jax.Array:
    tokens, width = x.shape
    size = width // model.heads
    every = jnp.einsum("td,dje->jte", x, jnp.stack(own["heads"], 1)).reshape(_OF_HEADS, tokens, model.heads, size)
    queries, keys, values = (_cut(jnp.moveaxis(each, 1, 0), 0) for each in every)

    @jax.checkpoint
    def part(_: None, given: Any) -> tuple[None, jax.Array]:
        some, first = _cut(given[0], 0), given[1]
        scores = jnp.einsum("hqe,hke->hqk", some * size**-0.5, keys)
        seen = jnp.arange(tokens) <= first + jnp.arange(_QUERIES)[:, None]
        weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min))
        return None, _cut(jnp.einsum("hqk,hke->hqe", weights, values), 0)

    parts = _cut(jnp.moveaxis(queries.reshape(model.heads, -1, _QUERIES, size), 1, 0), 1)
    _, found = jax.lax.scan(part, None, (parts, jnp.arange(0, tokens, _QUERIES)))
    heads = _cut(jnp.moveaxis(found, 0, 1).reshape(queries.shape), 0)
    return jnp.moveaxis(heads, 0, 1).reshape(x.shape) @ own["out"]


def _loss(model: Gpt) -> Callable[..., Any]:
    def loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        """Mean cross entropy, a part of the tokens at a time."""

        @jax.checkpoint
        def part(total: jax.Array, given: Any) -> tuple[jax.Array, None]:
            some, wanted = given
            scores = jnp.einsum("qd,vd->qv", some, params["words"]).astype(jnp.float32)
            right = jnp.where(jnp.arange(model.vocabulary) == wanted[:, None], scores, 0).sum(-1)
            return total + (jax.nn.logsumexp(scores, axis=-1) - right).sum(), None

        y = _whole(_norm(params["norm"], x))
        parts = y.reshape(-1, _QUERIES, model.width), labels.reshape(-1, _QUERIES)
        return jax.lax.scan(part, jnp.float32(0), parts)[0] / labels.size

    return loss


def _by_tokens(x: jax.Array) -> jax.Array:
    return _cut(x, x.ndim - 2)


def _whole(x: jax.Array) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, P())


def _cut(x: jax.Array, axis: int) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, P(*[None] * axis, SHARD_AXIS))


def _norm(params: Any, x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    found = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + _EPSILON)
    return found.astype(x.dtype) * params["scale"] + params["bias"]


def _half(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float16)
