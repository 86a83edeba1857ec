"""A GPT as layers for `tilestep.plan_training`, each divided over the IPUs of a stage: an embedding, blocks of layers, the loss.

The layers of a block have stacked parameters, and a scan walks them, so that the block's code is that of one layer. Each layer's
activations are computed again in the backward pass. Between layers an IPU has a part of the tokens of each sequence; in products, a part of
the columns and of the inner width (Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", figure 5); in
attention, heads of its own, or some queries of each head where there are more IPUs than heads.
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
_QUERIES = 256  # whose scores exist at a time, where IPUs have heads of their own
_OF_HEADS = 3  # products of attention with x: queries, keys, values
_PARTS = 4  # of the inner width: arrays of all products are equally large, because an update has one array's moments in the tiles


def layers(model: Gpt, blocks: int, tokens: int, heads: int | None = None) -> dict[str, Any]:
    """`layers`, `params`, `sharding`, `optimizer` and `microbatch` of `plan_training`.

    Args:
        blocks: into which the model's layers are divided, the first ones larger where they do not divide their number.
        tokens: of a sequence, which an IPU has whole at a time; they must divide its length.
        heads: whose keys and values an IPU has whole at a time, and then some queries of each head; None: it has heads of its own.
    """
    width, shard = model.width, SHARD_AXIS
    whole, columns, rows = {"scale": P(), "bias": P()}, P(None, None, shard), P(None, shard)
    some = width // model.heads * (heads or model.heads)

    def block(count: int) -> dict[str, Any]:
        stack = functools.partial(_half, count)
        norm, square = {"scale": stack(width), "bias": stack(width)}, stack(width, width)
        return {
            "norm1": norm,
            "heads": [stack(width // some, width, some)] * _OF_HEADS,
            "out": stack(width // some, some, width),
            "norm2": norm,
            "up": [square] * _PARTS,
            "up_bias": stack(_PARTS, width),
            "down": [square] * _PARTS,
            "down_bias": stack(width),
        }

    counts = [(model.layers + index) // blocks for index in reversed(range(blocks))]
    cut = {
        "norm1": whole,
        "heads": [P(None, None, None, shard)] * _OF_HEADS,
        "out": P(None, None, shard),
        "norm2": whole,
        "up": [columns] * _PARTS,
        "up_bias": P(None, None, shard),
        "down": [rows] * _PARTS,
        "down_bias": P(),
    }
    own_norm = {"scale": _half(width), "bias": _half(width)}
    tables = {"words": _half(model.vocabulary, width), "positions": _half(model.context, width)}
    return {
        "layers": [functools.partial(_embed, tokens), *[_block(model, heads)] * blocks, _loss(model)],
        "params": [tables, *map(block, counts), {"norm": own_norm, "words": _half(model.vocabulary, width)}],
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


def _embed(tokens: int, params: Any, words: jax.Array) -> Any:
    x = params["words"][words[:, :-1]] + params["positions"]
    return _by_tokens(x.reshape(x.shape[0], -1, tokens, x.shape[-1])), words[:, 1:]


def _block(model: Gpt, heads: int | None) -> Callable[..., Any]:
    def sequence(own: Any, x: jax.Array) -> jax.Array:
        x = x + _attention(model, heads, own, x)

        def perceptron(some: jax.Array) -> jax.Array:
            y = _whole(_by_tokens(_norm(own["norm2"], some)))
            inner = jax.nn.gelu(jnp.einsum("td,dje->tje", y, jnp.stack(own["up"], 1)) + own["up_bias"])
            return some + _by_tokens(jnp.einsum("tje,jed->td", inner, jnp.stack(own["down"]))) + own["down_bias"]

        return _each(perceptron, x)

    def layer(x: jax.Array, own: Any) -> tuple[jax.Array, None]:
        return jax.lax.map(jax.checkpoint(functools.partial(sequence, own)), x), None

    def block(params: Any, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.scan(layer, x, params)[0], labels

    return block


def _attention(model: Gpt, heads: int | None, own: Any, x: jax.Array) -> jax.Array:
    parts, tokens, width = x.shape
    size = width // model.heads
    later = jnp.arange(parts * tokens) > jnp.arange(parts * tokens).reshape(parts, tokens, 1)

    def projected(some: jax.Array) -> jax.Array:
        y = _whole(_by_tokens(_norm(own["norm1"], some)))
        return _cut(jnp.einsum("td,gdje->gjte", y, jnp.stack(own["heads"], 2)), 3)

    def weighted(queries: jax.Array, later: jax.Array, keys: jax.Array, values: jax.Array) -> jax.Array:
        scores = jnp.einsum("...qhe,khe->...hqk", queries * size**-0.5, keys)
        weights = jax.nn.softmax(jnp.where(later[..., None, :, :], jnp.finfo(scores.dtype).min, scores))
        return jnp.einsum("...hqk,khe->...qhe", weights, values)

    def by_queries(given: jax.Array) -> jax.Array:
        queries = _by_tokens(given[:, 0]).reshape(parts, tokens, heads, size)
        keys, values = (_whole(given[:, each]).reshape(-1, heads, size) for each in (1, 2))
        return _by_tokens(weighted(queries, later, keys, values).reshape(parts, tokens, -1))

    def by_heads(given: jax.Array) -> jax.Array:
        queries, keys, values = (_cut(given[:, each].reshape(-1, model.heads, size), 1) for each in range(_OF_HEADS))
        some = _cut(queries.reshape(-1, _QUERIES, model.heads, size), 2), later.reshape(-1, _QUERIES, later.shape[-1])
        found = jax.lax.map(jax.checkpoint(lambda given: _cut(weighted(*given, keys, values), 1)), some)
        return _cut(found.reshape(parts, tokens, -1), 2)

    def out(some: jax.Array) -> jax.Array:
        return _by_tokens(jnp.einsum("gte,ged->td", _cut(some, 2), own["out"]))

    every = _each(projected, x)
    found = _each(by_heads if heads is None else by_queries, jnp.moveaxis(every, 1, 0))
    return _each(out, jnp.moveaxis(found, 1, 0))


def _loss(model: Gpt) -> Callable[..., Any]:
    def loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        """Mean cross entropy, a part of the tokens at a time."""

        @jax.checkpoint
        def part(total: jax.Array, given: Any) -> tuple[jax.Array, None]:
            some, wanted = given
            y = _whole(_by_tokens(_norm(params["norm"], some)))
            scores = jnp.einsum("qd,vd->qv", y, params["words"]).astype(jnp.float32)
            right = jnp.where(jnp.arange(model.vocabulary) == wanted[:, None], scores, 0).sum(-1)
            return total + (jax.nn.logsumexp(scores, axis=-1) - right).sum(), None

        parts = x.reshape(-1, *x.shape[2:]), labels.reshape(-1, x.shape[2])
        return jax.lax.scan(part, jnp.float32(0), parts)[0] / labels.size

    return loss


def _each(function: Callable[[jax.Array], jax.Array], parts: jax.Array) -> jax.Array:
    """Of each part, computed again in the backward pass where there are several, so that their inner values exist one part at a time."""
    return function(parts[0])[None] if len(parts) == 1 else jax.lax.map(jax.checkpoint(function), parts)


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
