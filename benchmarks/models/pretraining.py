"""BERT's training (Devlin et al. 2018) in parts that pipelines cut between: embeddings, attentions, feed-forward nets, heads.

In pretraining the heads predict masked words and next sentences; in fine-tuning for questions they predict an answer's
start and end. Rows may be packed (Krell et al. 2021): several sequences follow each other in a row, and none sees another.
The backward pass computes the values of layers again from their inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import gelu, library, log_softmax, shapes_in, softmax
from benchmarks.models.norms import layer_norm
from benchmarks.models.transformer import SEGMENTS, Encoder

Params = dict[str, Any]
Element = dict[str, Any]
Part = Literal["embedding", "attention", "feed forward", "heads", "answers"]

_HIDDEN = -10_000


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """Sizes of a run.

    Attributes:
        encoder: the layers.
        vocabulary: words.
        tokens: of a row.
        masked: words of a row that are predicted in pretraining.
        packed: sequences of a row at most.
        dropout: share of dropped values of embeddings, attentions and feed-forward nets.
        attention_dropout: share of dropped weights of attentions.
    """

    encoder: Encoder
    vocabulary: int
    tokens: int
    masked: int
    packed: int = 1
    dropout: float = 0.1
    attention_dropout: float = 0.0


def parameters(model: Pretraining, part: Part, dtype: Any = jnp.float16) -> Params:
    """Shapes of a part's parameters. The heads' `words` are those of the embeddings."""
    width = model.encoder.width

    array, dense = shapes_in(dtype)
    norm = {"scale": array(width), "bias": array(width)}
    match part:
        case "embedding":
            tables = {"words": array(model.vocabulary, width), "positions": array(model.tokens, width), "segments": array(SEGMENTS, width)}
            return {**tables, "norm": norm}
        case "attention":
            return {"qkv": dense(width, 3 * width), "out": dense(width, width), "norm": norm}
        case "feed forward":
            return {"up": dense(width, 4 * width), "down": dense(4 * width, width), "norm": norm}
        case "heads":
            predicted = {
                "transform": dense(width, width),
                "norm": norm,
                "words": array(model.vocabulary, width),
                "bias": array(model.vocabulary),
            }
            return {**predicted, "pooler": dense(width, width), "next": dense(width, 2)}
        case "answers":
            return dense(width, 2)


def element(model: Pretraining, rows: int) -> Element:
    """Shapes of the data of so many rows."""

    def numbers(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((rows, *dims), jnp.int32)

    words = {"words": numbers(model.tokens), "segments": numbers(model.tokens), "sequences": numbers(model.tokens)}
    places = {"positions": numbers(model.tokens)} if model.packed > 1 else {}
    if not model.masked:
        return {**words, **places, "spans": numbers(2)}
    return {**words, **places, "places": numbers(model.masked), "labels": numbers(model.masked), "next": numbers(model.packed)}


_READ: Mapping[Part, tuple[str, ...]] = {
    "attention": ("sequences",),
    "heads": ("places", "labels", "next"),
    "answers": ("spans",),
}


def stages(model: Pretraining, parts: Sequence[Sequence[Part]]) -> tuple[Callable[..., Any], ...]:
    """The stages of `Pipeline` with these parts."""
    return tuple(
        _stage(model, own, first=number == 0, later=[part for others in parts[number + 1 :] for part in others])
        for number, own in enumerate(parts)
    )


def _stage(model: Pretraining, parts: Sequence[Part], *, first: bool, later: Sequence[Part]) -> Callable[..., Any]:
    """(params, one pytree per part; x unless it is the first; arrays of the element) -> x and what later parts read.

    The last stage returns the loss.
    """
    passed_on = {name for part in later for name in _READ.get(part, ())}

    def values(params: Sequence[Params], x: jax.Array | None, data: Element, key: jax.Array) -> Any:
        for number, (part, own) in enumerate(zip(parts, params, strict=True)):
            ours = jax.random.fold_in(key, number)
            if part == "embedding":
                x = _embedded(model, own, data, ours)
            elif part == "heads":
                return _loss(model, own, x, data)
            elif part == "answers":
                return cross_entropy(dense(own, x).swapaxes(1, 2), data["spans"])
            elif part == "attention":
                x = jax.checkpoint(functools.partial(attention, model))(own, x, data["sequences"], ours)
            else:
                x = jax.checkpoint(functools.partial(_feed_forward, model))(own, x, ours)
        return x, {name: array for name, array in data.items() if name in passed_on}

    if first:
        return lambda params, *, key, **data: values(params, None, data, key)
    return lambda params, x, data, *, key: values(params, x, data, key)


def _embedded(model: Pretraining, params: Params, data: Element, key: jax.Array) -> jax.Array:
    places = params["positions"][data["positions"]] if "positions" in data else params["positions"]
    x = params["words"][data["words"]] + params["segments"][data["segments"]] + places
    return dropped(normed(params["norm"], x), model.dropout, key)


def attention(model: Pretraining, params: Params, x: jax.Array, sequences: jax.Array, key: jax.Array) -> jax.Array:
    """Sequence 0 is padding; in packed rows a word sees its own sequence only."""
    rows, tokens, width = x.shape
    heads = model.encoder.heads
    apart = (sequences[:, :, None] != sequences[:, None, :])[:, None] if model.packed > 1 else (sequences == 0)[:, None, None, :]
    queries, keys, values = dense(params["qkv"], x).reshape(rows, tokens, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = (queries * (width // heads) ** -0.5) @ keys.swapaxes(-1, -2) + apart.astype(x.dtype) * jnp.asarray(_HIDDEN, x.dtype)
    weights = dropped(softmax(scores), model.attention_dropout, jax.random.fold_in(key, 1))
    mixed = dense(params["out"], (weights @ values).transpose(0, 2, 1, 3).reshape(x.shape))
    return normed(params["norm"], x + dropped(mixed, model.dropout, key))


def _feed_forward(model: Pretraining, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    inner = gelu(dense(params["up"], x), approximate=model.encoder.gelu == "tanh")
    return normed(params["norm"], x + dropped(dense(params["down"], inner), model.dropout, key))


def _loss(model: Pretraining, params: Params, x: Any, data: Element) -> jax.Array:
    """Sum of both heads' mean cross entropies."""
    chosen = jnp.take_along_axis(x, data["places"][..., None], 1)
    hidden = normed(params["norm"], gelu(dense(params["transform"], chosen), approximate=model.encoder.gelu == "tanh"))
    words = cross_entropy(hidden @ params["words"].T + params["bias"], data["labels"])
    firsts = x[:, : model.packed]  # a packed row has the first words of its sequences in front
    following = cross_entropy(dense(params["next"], jnp.tanh(dense(params["pooler"], firsts))), data["next"])
    return words + following


@library
def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean of -log softmax(scores)[labels], in float32 from the last sum on.

    The label's value is chosen by a comparison, whose gradient is elementwise. That of an index would be a scatter.
    """
    is_label = jax.lax.broadcasted_iota(labels.dtype, scores.shape, scores.ndim - 1) == labels[..., None]
    chosen = jnp.where(is_label, log_softmax(scores), jnp.zeros((), scores.dtype)).sum(-1)
    return -chosen.astype(jnp.float32).mean()


@library
def dropped(x: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    """`x` with that share of its values 0, and the others larger for it; 16 random bits decide for a value."""
    if not rate:
        return x
    kept = jax.random.bits(key, x.shape, jnp.uint16) >= jnp.uint16(round(rate * 2**16))
    return jnp.where(kept, x * jnp.asarray(1 / (1 - rate), x.dtype), jnp.zeros((), x.dtype))


def normed(params: Params, x: jax.Array) -> jax.Array:
    """Layer norm."""
    return layer_norm(x, params["scale"], params["bias"])


def dense(params: Params, x: jax.Array) -> jax.Array:
    """A product with a bias."""
    return x @ params["kernel"] + params["bias"]
