"""Training of GPT-2 (Radford et al. 2019) in parts that pipelines cut between: words, positions, layers, the last norm, the head.

Layers are checkpointed: the backward pass computes their values again from their inputs. The head's words are those of the embedding.
The published runs sum the loss up over slices of 128 words; the sum here is over all of them.
Source: graphcore/examples@bf12eaa(v3.3.0) nlp/gpt2/pytorch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import gelu, shapes_in, softmax
from benchmarks.models.pretraining import cross_entropy, dense, dropped, normed
from benchmarks.models.transformer import Encoder

Params = dict[str, Any]
Part = Literal["words", "positions", "layer", "norm", "head"]

_HIDDEN: Final = -10_000


@dataclass(frozen=True, kw_only=True)
class Language:
    """Sizes of a run.

    Attributes:
        encoder: the layers.
        vocabulary: words.
        tokens: of a row.
        dropout: share of dropped values of the embedding and of each residual branch.
        attention_dropout: share of dropped weights of attentions.
    """

    encoder: Encoder
    vocabulary: int
    tokens: int
    dropout: float = 0.1
    attention_dropout: float = 0.0


def parameters(model: Language, part: Part, dtype: Any = jnp.float16) -> Params:
    """Shapes of a part's parameters. The head's `words` are those of the first part."""
    width = model.encoder.width

    array, product = shapes_in(dtype)
    norm = {"scale": array(width), "bias": array(width)}
    match part:
        case "words" | "head":
            return {"words": array(model.vocabulary, width)}
        case "positions":
            return {"positions": array(model.tokens, width)}
        case "layer":
            attention = {"norm": norm, "qkv": product(width, 3 * width), "out": product(width, width)}
            return {"attention": attention, "net": {"norm": norm, "up": product(width, 4 * width), "down": product(4 * width, width)}}
        case "norm":
            return norm


def element(model: Language, rows: int) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Shapes of so many rows of words, and of the words that follow each."""
    words = jax.ShapeDtypeStruct((rows, model.tokens), jnp.int32)
    return words, words


def stage(model: Language, parts: Sequence[Part]) -> Callable[..., Any]:
    """A stage of `Pipeline`: (params, one pytree per part; words, or hidden values; labels) -> the next stage's arguments, or the loss."""

    def values(params: Sequence[Params], x: jax.Array, labels: jax.Array, *, key: jax.Array) -> Any:
        for number, (part, own) in enumerate(zip(parts, params, strict=True)):
            ours = jax.random.fold_in(key, number)
            match part:
                case "words":
                    x = own["words"][x]
                case "positions":
                    x = dropped(x + own["positions"], model.dropout, ours)
                case "layer":
                    x = jax.checkpoint(functools.partial(_layer, model))(own, x, ours)
                case "norm":
                    x = normed(own, x)
                case "head":
                    return _loss(own, x, labels)
        return x, labels

    return values


def _layer(model: Language, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    keys = jax.random.split(key, 3)
    x = x + dropped(_attention(model, params["attention"], x, keys[0]), model.dropout, keys[1])
    inner = gelu(dense(params["net"]["up"], normed(params["net"]["norm"], x)), approximate=model.encoder.gelu == "tanh")
    return x + dropped(dense(params["net"]["down"], inner), model.dropout, keys[2])


def _attention(model: Language, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    rows, tokens, width = x.shape
    heads = model.encoder.heads
    qkv = dense(params["qkv"], normed(params["norm"], x)).reshape(rows, tokens, 3, heads, width // heads)
    queries, keys, values = qkv.transpose(2, 0, 3, 1, 4)
    before = jnp.tril(jnp.ones((tokens, tokens), x.dtype))
    scores = queries @ keys.swapaxes(-1, -2) * (width // heads) ** -0.5 + (1 - before) * jnp.asarray(_HIDDEN, x.dtype)
    weights = dropped(softmax(scores), model.attention_dropout, key)
    return dense(params["out"], (weights @ values).swapaxes(1, 2).reshape(x.shape))


def _loss(params: Params, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy of each next word."""
    return cross_entropy(x @ params["words"].T, labels)
