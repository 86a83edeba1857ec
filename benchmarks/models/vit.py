"""Training of the vision transformer (Dosovitskiy et al. 2020) in parts that pipelines cut between: embedding, layers, head.

Layers are checkpointed: the backward pass computes their values again from their inputs. A 'halved layer' has a second checkpoint after
its attention.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import gelu, shapes_in, softmax
from benchmarks.models.pretraining import cross_entropy, dense, dropped, normed
from benchmarks.models.transformer import Encoder

Params = dict[str, Any]
Part = Literal["embedding", "layer", "halved layer", "head"]


@dataclass(frozen=True, kw_only=True)
class Vit:
    """Sizes of a run.

    Attributes:
        encoder: the layers.
        image: pixels of an edge.
        patch: pixels of a patch's edge.
        classes: of the last product.
        dropout: share of dropped values after the embedding and each product of a residual branch.
        attention_dropout: share of dropped weights of attentions.
        representation: whether a layer with tanh is before the last product, and values inside feed-forward nets are dropped, too.
        bytes_in: whether pixels arrive as bytes.
    """

    encoder: Encoder
    image: int = 224
    patch: int = 16
    classes: int = 1000
    dropout: float = 0.1
    attention_dropout: float = 0.0
    representation: bool = False
    bytes_in: bool = False

    @property
    def tokens(self) -> int:
        """Of an image, the class's included."""
        return (self.image // self.patch) ** 2 + 1


def parameters(model: Vit, part: Part, dtype: Any = jnp.float16) -> Params:
    """Shapes of a part's parameters."""
    width = model.encoder.width

    array, product = shapes_in(dtype)
    norm = {"scale": array(width), "bias": array(width)}
    match part:
        case "embedding":
            patches = {"kernel": array(model.patch, model.patch, 3, width), "bias": array(width)}
            return {"patches": patches, "class": array(1, 1, width), "positions": array(model.tokens, width)}
        case "layer" | "halved layer":
            attention = {name: product(width, width) for name in ("queries", "keys", "values", "out")}
            net = {"up": product(width, 4 * width), "down": product(4 * width, width)}
            return {"attention": {"norm": norm, **attention}, "net": {"norm": norm, **net}}
        case "head":
            extra = {"representation": product(width, width)} if model.representation else {}
            return {"norm": norm, **extra, "classes": product(width, model.classes)}


def element(model: Vit, rows: int, dtype: Any = jnp.float16) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Shapes of so many images, and of their labels."""
    pixels = jnp.uint8 if model.bytes_in else dtype
    images = jax.ShapeDtypeStruct((rows, model.image, model.image, 3), pixels)
    return images, jax.ShapeDtypeStruct((rows,), jnp.int32)


def stage(model: Vit, parts: Sequence[Part]) -> Callable[..., Any]:
    """A stage of `Pipeline`: (params, one pytree per part; images, or hidden values; labels) -> the next stage's arguments, or the loss."""

    def values(params: Sequence[Params], x: jax.Array, labels: jax.Array, *, key: jax.Array) -> Any:
        for number, (part, own) in enumerate(zip(parts, params, strict=True)):
            ours = jax.random.fold_in(key, number)
            match part:
                case "embedding":
                    x = _embedded(model, own, x, ours)
                case "layer":
                    x = jax.checkpoint(functools.partial(_layer, model))(own, x, ours)
                case "halved layer":
                    x = jax.checkpoint(functools.partial(_attention, model))(own["attention"], x, ours)
                    x = jax.checkpoint(functools.partial(_feed_forward, model))(own["net"], x, ours)
                case "head":
                    return cross_entropy(_logits(model, own, x), labels)
        return x, labels

    return values


def _embedded(model: Vit, params: Params, images: jax.Array, key: jax.Array) -> jax.Array:
    kernel = params["patches"]["kernel"]
    if model.bytes_in:
        images = images.astype(kernel.dtype) / 255
    step = (model.patch, model.patch)
    patches = jax.lax.conv_general_dilated(images, kernel, step, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    patches = patches.reshape(len(images), -1, model.encoder.width) + params["patches"]["bias"]
    first = jnp.broadcast_to(params["class"], (len(images), 1, model.encoder.width))
    return dropped(jnp.concatenate([first, patches], 1) + params["positions"], model.dropout, key)


def _layer(model: Vit, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    return _feed_forward(model, params["net"], _attention(model, params["attention"], x, key), key)


def _attention(model: Vit, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    rows, tokens, width = x.shape
    heads = model.encoder.heads
    y = normed(params["norm"], x)

    def of_heads(name: str) -> jax.Array:
        return dense(params[name], y).reshape(rows, tokens, heads, width // heads).swapaxes(1, 2)

    scores = of_heads("queries") @ of_heads("keys").swapaxes(-1, -2) * (width // heads) ** -0.5
    weights = dropped(softmax(scores), model.attention_dropout, jax.random.fold_in(key, 1))
    mixed = dense(params["out"], (weights @ of_heads("values")).swapaxes(1, 2).reshape(x.shape))
    return x + dropped(mixed, model.dropout, jax.random.fold_in(key, 2))


def _feed_forward(model: Vit, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    inner = gelu(dense(params["up"], normed(params["norm"], x)), approximate=model.encoder.gelu == "tanh")
    if model.representation:
        inner = dropped(inner, model.dropout, jax.random.fold_in(key, 3))
    return x + dropped(dense(params["down"], inner), model.dropout, jax.random.fold_in(key, 4))


def _logits(model: Vit, params: Params, x: jax.Array) -> jax.Array:
    x = normed(params["norm"], x)[:, 0]
    if model.representation:
        x = jnp.tanh(dense(params["representation"], x))
    return dense(params["classes"], x)
