"""Transformer encoders: BERT (Devlin et al. 2018) for questions and answers, and the vision transformer (Dosovitskiy et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.models.layers import gelu, library, softmax
from benchmarks.models.norms import layer_norm

Params = dict[str, Any]

VOCABULARY = 30_522
POSITIONS = 512
SEGMENTS = 2
PATCH = 16
IMAGE = 224
CLASSES = 1000
EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Sizes of an encoder, and in what its GELUs and norms are computed where that is not the dtype of the weights."""

    width: int
    layers: int
    heads: int
    gelu: Literal["tanh", "erf"] = "tanh"
    wide: bool = False  # GELUs and norms in float32
    attention_grain: int = 1  # tokens of an attention are padded to a multiple of it, as by PopRT's attention_padding
    slow_norm: bool = False  # norms by popnn, one codelet after the other, and not by PopRT's own codelet


BERT_BASE = Encoder(width=768, layers=12, heads=12)
BERT_BASE_ERF = Encoder(width=768, layers=12, heads=12, gelu="erf")  # as its authors have it
BERT_LARGE = Encoder(width=1024, layers=24, heads=16)
VIT_BASE = Encoder(width=768, layers=12, heads=12)


def bert_shapes(model: Encoder, dtype: Any) -> Params:
    """Shapes of BERT's parameters, embeddings and the two outputs per token (start, end) included."""
    array, width = _arrays(dtype), model.width
    return {
        "words": array(VOCABULARY, width),
        "positions": array(POSITIONS, width),
        "segments": array(SEGMENTS, width),
        "norm": _norm_shapes(model, dtype),
        "layers": [_layer_shapes(model, dtype)] * model.layers,
        "head": {"kernel": array(width, 2), "bias": array(2)},
    }


def bert(
    model: Encoder, params: Params, words: jax.Array, mask: jax.Array, segments: jax.Array, positions: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Start and end logits, [batch, tokens] each.

    Args:
        words, segments: [batch, tokens] numbers.
        mask: 1 where there is a word. Of packed rows: which sequence of the row each word belongs to.
        positions: of packed rows, the place of each word in its sequence; None if each row is one sequence.
    """
    seat = params["positions"][: words.shape[1]] if positions is None else params["positions"][positions]
    x = _norm(model, params["norm"], params["words"][words] + params["segments"][segments] + seat)
    apart = (mask == 0)[:, None, None, :] if positions is None else (mask[:, :, None] != mask[:, None, :])[:, None]
    hidden = apart.astype(x.dtype) * jnp.asarray(-10_000, x.dtype)
    for layer in params["layers"]:
        x = _norm(model, layer["norm1"], x + _attention(model, layer, x, hidden))
        x = _norm(model, layer["norm2"], x + _feed_forward(model, layer, x))
    logits = _dense(params["head"], x)
    return logits[..., 0], logits[..., 1]


def apart(params: Params) -> Params:
    """BERT's parameters, as arrays, with products of their own for queries, keys and values, as in Hugging Face's transformers."""

    def layer(own: Params) -> Params:
        kernels, biases = (np.split(own["qkv"][part], 3, axis=-1) for part in ("kernel", "bias"))
        parts = zip(("query", "key", "value"), kernels, biases, strict=True)
        others = {name: value for name, value in own.items() if name != "qkv"}
        return {**others, **{name: {"kernel": kernel, "bias": bias} for name, kernel, bias in parts}}

    return {**params, "layers": [layer(own) for own in params["layers"]]}


def vit_shapes(model: Encoder, dtype: Any) -> Params:
    """Shapes of the vision transformer's parameters."""
    array, width = _arrays(dtype), model.width
    return {
        "patches": {"kernel": array(PATCH, PATCH, 3, width), "bias": array(width)},
        "class": array(1, 1, width),
        "positions": array((IMAGE // PATCH) ** 2 + 1, width),
        "layers": [_layer_shapes(model, dtype)] * model.layers,
        "norm": _norm_shapes(model, dtype),
        "head": {"kernel": array(width, CLASSES), "bias": array(CLASSES)},
    }


def vit(model: Encoder, params: Params, images: jax.Array) -> jax.Array:
    """[batch, CLASSES] logits of [batch, IMAGE, IMAGE, 3] images."""
    batch = images.shape[0]
    patches = jax.lax.conv_general_dilated(
        images, params["patches"]["kernel"], (PATCH, PATCH), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    patches = patches.reshape(batch, -1, model.width) + params["patches"]["bias"]
    x = jnp.concatenate([jnp.broadcast_to(params["class"], (batch, 1, model.width)), patches], 1) + params["positions"]
    for layer in params["layers"]:
        x = x + _attention(model, layer, _norm(model, layer["norm1"], x), None)
        x = x + _feed_forward(model, layer, _norm(model, layer["norm2"], x))
    return _dense(params["head"], _norm(model, params["norm"], x[:, 0]))


def _attention(model: Encoder, params: Params, x: jax.Array, hidden: jax.Array | None) -> jax.Array:
    """Multi-head attention; `hidden` is added to the scores."""
    batch, tokens, width = x.shape
    size = width // model.heads
    if "qkv" in params:
        queries, keys, values = _dense(params["qkv"], x).reshape(batch, tokens, 3, model.heads, size).transpose(2, 0, 3, 1, 4)
    else:
        queries, keys, values = (
            _dense(params[part], x).reshape(batch, tokens, model.heads, size).transpose(0, 2, 1, 3) for part in ("query", "key", "value")
        )
    if more := -tokens % model.attention_grain:
        queries, keys, values = (jnp.pad(part, ((0, 0), (0, 0), (0, more), (0, 0))) for part in (queries, keys, values))
        hidden = jnp.where(jnp.arange(tokens + more) < tokens, 0, -10_000).astype(x.dtype)
    scores = (queries * size**-0.5) @ keys.transpose(0, 1, 3, 2)
    weights = softmax(scores if hidden is None else scores + hidden)
    mixed = (weights @ values)[:, :, :tokens]
    return _dense(params["out"], mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, width))


def _feed_forward(model: Encoder, params: Params, x: jax.Array) -> jax.Array:
    inner = _dense(params["up"], x)
    inner = inner.astype(jnp.float32) if model.wide else inner
    return _dense(params["down"], gelu(inner, approximate=model.gelu == "tanh").astype(x.dtype))


def _norm(model: Encoder, params: Params, x: jax.Array) -> jax.Array:
    return layer_norm(x, params["scale"], params["bias"]) if model.slow_norm else _fast_norm(model, params, x)


@library
def _fast_norm(model: Encoder, params: Params, x: jax.Array) -> jax.Array:
    """Layer norm; sums are taken in float32 whatever the dtype."""
    wide = x.astype(jnp.float32) if model.wide else x
    centred = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON)
    return (centred * scale * params["scale"] + params["bias"]).astype(x.dtype)


def _dense(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]


def _arrays(dtype: Any) -> Any:
    return lambda *dims: jax.ShapeDtypeStruct(dims, dtype)


def _norm_shapes(model: Encoder, dtype: Any) -> Params:
    array = _arrays(dtype)
    return {"scale": array(model.width), "bias": array(model.width)}


def _layer_shapes(model: Encoder, dtype: Any) -> Params:
    array, width = _arrays(dtype), model.width

    def dense(inputs: int, outputs: int) -> Params:
        return {"kernel": array(inputs, outputs), "bias": array(outputs)}

    return {
        "qkv": dense(width, 3 * width),
        "out": dense(width, width),
        "norm1": _norm_shapes(model, dtype),
        "up": dense(width, 4 * width),
        "down": dense(4 * width, width),
        "norm2": _norm_shapes(model, dtype),
    }
