"""CLIP (Radford et al. 2021) with ViT-B/32: how alike images and texts are.

Layers have their norms in front. GELUs are x sigmoid(1.702 x), as its authors have them.
Source: openai/CLIP model.py, which `benchmarks/CLIP` of graphcore/PopRT exports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp

from benchmarks.models.layers import array, softmax
from benchmarks.models.pretraining import dense, normed

Params = dict[str, Any]

IMAGE: Final = 224
_PATCH: Final = 32
_HIDDEN: Final = -10_000  # of a word behind the one that looks


@dataclass(frozen=True, kw_only=True)
class Tower:
    """Sizes of one of the two encoders."""

    width: int
    heads: int
    tokens: int
    layers: int = 12


IMAGES: Final = Tower(width=768, heads=12, tokens=(IMAGE // _PATCH) ** 2 + 1)
TEXTS: Final = Tower(width=512, heads=8, tokens=77)
_SHARED: Final = 512  # width in which both are compared
_VOCABULARY: Final = 49_408


def shapes(dtype: Any = jnp.float16) -> Params:
    """Shapes of all parameters."""

    def product(inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, inputs, outputs), "bias": array(dtype, outputs)}

    def norm(width: int) -> Params:
        return {"scale": array(dtype, width), "bias": array(dtype, width)}

    def tower(model: Tower) -> Params:
        width = model.width
        layer = {
            "norm1": norm(width),
            "qkv": product(width, 3 * width),
            "out": product(width, width),
            "norm2": norm(width),
            "up": product(width, 4 * width),
            "down": product(4 * width, width),
        }
        ends = {"norm": norm(width), "projection": array(dtype, width, _SHARED)}
        return {"positions": array(dtype, model.tokens, width), "layers": [layer] * model.layers, **ends}

    patches = {"patches": array(dtype, _PATCH, _PATCH, 3, IMAGES.width), "class": array(dtype, IMAGES.width), "first": norm(IMAGES.width)}
    return {
        "images": {**tower(IMAGES), **patches},
        "texts": {**tower(TEXTS), "words": array(dtype, _VOCABULARY, TEXTS.width)},
        "scale": array(dtype),
    }


def forward(params: Params, images: jax.Array, words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[images, texts] and [texts, images] logits of [images, IMAGE, IMAGE, 3] and [texts, 77] numbers of words."""
    one, other = _of_images(params["images"], images), _of_texts(params["texts"], words)
    alike = jnp.exp(params["scale"]) * one @ other.T
    return alike, alike.T


def _of_images(params: Params, images: jax.Array) -> jax.Array:
    step = (_PATCH, _PATCH)
    x = jax.lax.conv_general_dilated(images, params["patches"], step, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(len(images), -1, IMAGES.width)
    first = jnp.broadcast_to(params["class"], (len(images), 1, IMAGES.width))
    x = normed(params["first"], jnp.concatenate([first, x], 1) + params["positions"])
    for own in params["layers"]:
        x = _layer(IMAGES, own, x, None)
    return _unit(normed(params["norm"], x[:, 0]) @ params["projection"])


def _of_texts(params: Params, words: jax.Array) -> jax.Array:
    x = params["words"][words] + params["positions"]
    before = jnp.tril(jnp.ones((TEXTS.tokens, TEXTS.tokens), bool))
    hidden = jnp.where(before, 0, _HIDDEN).astype(x.dtype)
    for own in params["layers"]:
        x = _layer(TEXTS, own, x, hidden)
    x = normed(params["norm"], x)
    last = jnp.take_along_axis(x, words.argmax(-1)[:, None, None], 1)[:, 0]  # the end of a text has the highest number
    return _unit(last @ params["projection"])


def _layer(model: Tower, params: Params, x: jax.Array, hidden: jax.Array | None) -> jax.Array:
    rows, tokens, width = x.shape
    heads = model.heads
    qkv = dense(params["qkv"], normed(params["norm1"], x)).reshape(rows, tokens, 3, heads, width // heads)
    queries, keys, values = qkv.transpose(2, 0, 3, 1, 4)
    scores = (queries * (width // heads) ** -0.5) @ keys.swapaxes(-1, -2)
    weights = softmax(scores if hidden is None else scores + hidden)
    x = x + dense(params["out"], (weights @ values).swapaxes(1, 2).reshape(x.shape))
    inner = dense(params["up"], normed(params["norm2"], x))
    return x + dense(params["down"], inner * jax.nn.sigmoid(1.702 * inner))


def _unit(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True))
