"""Training of the Swin transformer (Liu et al. 2021) in parts that pipelines cut between: embedding, blocks, merging, head.

Attention is inside windows of an image, which every second block shifts. A window's tokens are padded to a multiple of 8, as the published
runs on IPUs do. Blocks may be checkpointed: the backward pass computes their values again from their inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import gelu, log_softmax, shapes_in, softmax
from benchmarks.models.pretraining import dense, normed

Params = dict[str, Any]
Kind = Literal["embedding", "block", "merging", "head"]

_APART = -100.0  # between parts of a window that are no neighbours
_PADDED = -65_450.0


@dataclass(frozen=True, kw_only=True)
class Swin:
    """Sizes of a network.

    Attributes:
        width: of the first level; each level has twice the width of the one before, and half the edges.
        depths: blocks of each level.
        heads: of each level.
        window: tokens of a window's edge.
        image: pixels of an edge.
        patch: pixels of a patch's edge.
        classes: of the head.
        drop_path: share of rows whose residual branch is left out in the last block; it rises from 0 in the first.
    """

    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int = 7
    image: int = 224
    patch: int = 4
    classes: int = 1000
    drop_path: float = 0.2

    def edge(self, level: int) -> int:
        """Tokens of an image's edge."""
        return self.image // self.patch >> level


SWIN_TINY = Swin(width=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24))
SWIN_SMALL = Swin(width=96, depths=(2, 2, 18, 2), heads=(3, 6, 12, 24), drop_path=0.3)
SWIN_BASE = Swin(width=128, depths=(2, 2, 18, 2), heads=(4, 8, 16, 32), drop_path=0.5)
SWIN_LARGE = Swin(width=192, depths=(2, 2, 18, 2), heads=(6, 12, 24, 48))


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a pipeline can cut between.

    Attributes:
        kind: what it does.
        level: the resolution it works on.
        number: of a block, in its level.
    """

    kind: Kind
    level: int = 0
    number: int = 0


def parts_of(model: Swin) -> tuple[Part, ...]:
    """All parts in their order."""
    parts = [Part(kind="embedding")]
    for level, depth in enumerate(model.depths):
        parts += [Part(kind="block", level=level, number=number) for number in range(depth)]
        parts += [Part(kind="merging", level=level)] if level + 1 < len(model.depths) else []
    return (*parts, Part(kind="head", level=len(model.depths) - 1))


def parameters(model: Swin, part: Part, dtype: Any = jnp.float32) -> Params:
    """Shapes of a part's parameters."""
    width = model.width << part.level

    array, product = shapes_in(dtype)

    def norm(size: int) -> Params:
        return {"scale": array(size), "bias": array(size)}

    match part.kind:
        case "embedding":
            return {"patches": {"kernel": array(model.patch, model.patch, 3, width), "bias": array(width)}, "norm": norm(width)}
        case "block":
            biases = array((2 * _window(model, part.level) - 1) ** 2, model.heads[part.level])
            attention = {"norm": norm(width), "qkv": product(width, 3 * width), "out": product(width, width), "biases": biases}
            return {
                "attention": attention,
                "net": {"norm": norm(width), "up": product(width, 4 * width), "down": product(4 * width, width)},
            }
        case "merging":
            return {"norm": norm(4 * width), "kernel": array(4 * width, 2 * width)}
        case "head":
            return {"norm": norm(width), "classes": product(width, model.classes)}


def element(model: Swin, rows: int, dtype: Any = jnp.float32) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Shapes of so many images, and of their labels, which are probabilities, because images are mixed."""
    return jax.ShapeDtypeStruct((rows, model.image, model.image, 3), dtype), jax.ShapeDtypeStruct((rows, model.classes), dtype)


def stage(model: Swin, parts: Sequence[Part], *, by_block: bool) -> Callable[..., Any]:
    """A stage of `Pipeline`: (params, one pytree per part; images, or hidden values; labels) -> the next stage's arguments, or the loss.

    Args:
        by_block: whether each block is checkpointed. Otherwise each stage but the last is.
    """
    ends = parts[-1].kind == "head"
    hidden = functools.partial(_hidden, model, parts, by_block=by_block)

    def values(params: Sequence[Params], x: jax.Array, labels: jax.Array, *, key: jax.Array) -> Any:
        function = hidden if by_block or ends else jax.checkpoint(hidden)
        y = function(params, x, key)
        return -(log_softmax(y) * labels).sum(-1).mean() if ends else (y, labels)

    return values


def _hidden(model: Swin, parts: Sequence[Part], params: Sequence[Params], x: jax.Array, key: jax.Array, *, by_block: bool) -> jax.Array:
    """What some parts make of images, or of hidden values."""
    for number, (part, own) in enumerate(zip(parts, params, strict=True)):
        ours = jax.random.fold_in(key, number)
        match part.kind:
            case "embedding":
                x = _embedded(model, own, x)
            case "block":
                function = functools.partial(block, model, part)
                x = (jax.checkpoint(function) if by_block else function)(own, x, ours)
            case "merging":
                x = merged(own, x)
            case "head":
                x = dense(own["classes"], normed(own["norm"], x).mean((1, 2)))
    return x


def forward(model: Swin, params: Sequence[Params], images: jax.Array) -> jax.Array:
    """[batch, classes] logits of [batch, image, image, 3] images. Args: params: one pytree per part."""
    return _hidden(model, parts_of(model), params, images, jax.random.key(0), by_block=False)


def _embedded(model: Swin, params: Params, images: jax.Array) -> jax.Array:
    step = (model.patch, model.patch)
    patches = jax.lax.conv_general_dilated(images, params["patches"]["kernel"], step, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return normed(params["norm"], patches + params["patches"]["bias"])


def block(model: Swin, part: Part, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    """A block: [rows, edge, edge, width] of the same."""
    place = sum(model.depths[: part.level]) + part.number
    share = model.drop_path * place / max(sum(model.depths) - 1, 1)
    first, second = jax.random.split(key)
    x = x + _kept(attention(model, part, params["attention"], x), share, first)
    inner = gelu(dense(params["net"]["up"], normed(params["net"]["norm"], x)))
    return x + _kept(dense(params["net"]["down"], inner), share, second)


def attention(model: Swin, part: Part, params: Params, x: jax.Array) -> jax.Array:
    """The residual branch of attention inside windows, its norm included."""
    rows, edge, _, width = x.shape
    window, heads = _window(model, part.level), model.heads[part.level]
    tokens, across = window**2, edge // window
    shift = window // 2 if part.number % 2 and window < edge else 0
    y = jnp.roll(normed(params["norm"], x), (-shift, -shift), (1, 2))
    y = y.reshape(rows, across, window, across, window, width).swapaxes(2, 3).reshape(-1, tokens, width)
    padded = -tokens % 8
    y = jnp.pad(y, ((0, 0), (0, padded), (0, 0)))
    queries, keys, values = dense(params["qkv"], y).reshape(len(y), -1, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = (queries * (width // heads) ** -0.5) @ keys.swapaxes(-1, -2)
    bias = params["biases"][offsets(window).reshape(-1)].reshape(tokens, tokens, heads).transpose(2, 0, 1)
    bias = jnp.pad(jnp.pad(bias, ((0, 0), (0, padded), (0, 0))), ((0, 0), (0, 0), (0, padded)), constant_values=_PADDED)
    scores = scores + bias
    if shift:
        apart = jnp.pad(_APART * different(edge, window, shift).astype(scores.dtype), ((0, 0), (0, padded), (0, padded)))
        scores = (scores.reshape(rows, -1, *scores.shape[1:]) + apart[:, None]).reshape(scores.shape)
    mixed = (softmax(scores) @ values).swapaxes(1, 2).reshape(y.shape)
    out = dense(params["out"], mixed)[:, :tokens]
    out = out.reshape(rows, across, across, window, window, width).swapaxes(2, 3).reshape(x.shape)
    return jnp.roll(out, (shift, shift), (1, 2))


def offsets(window: int) -> jax.Array:
    """[tokens, tokens] rows of the table of biases: one for each distance of two tokens."""
    down, right = jnp.divmod(jnp.arange(window**2), window)
    return (down[:, None] - down + window - 1) * (2 * window - 1) + right[:, None] - right + window - 1


def different(edge: int, window: int, shift: int) -> jax.Array:
    """[windows, tokens, tokens]: whether two tokens of a shifted window come from different sides of the image."""
    place = jnp.arange(edge)
    side = (place >= edge - window).astype(int) + (place >= edge - shift)
    sides = (side[:, None] * 3 + side).reshape(edge // window, window, edge // window, window).swapaxes(1, 2).reshape(-1, window**2)
    return sides[:, :, None] != sides[:, None, :]


def merged(params: Params, x: jax.Array) -> jax.Array:
    """Four neighbours become one token: [rows, edge / 2, edge / 2, 2 width] of [rows, edge, edge, width]."""
    rows, edge, _, width = x.shape
    y = x.reshape(rows, edge // 2, 2, edge // 2, 2, width).swapaxes(2, 3).reshape(rows, edge // 2, edge // 2, 4 * width)
    return normed(params["norm"], y) @ params["kernel"]


def _kept(x: jax.Array, share: float, key: jax.Array) -> jax.Array:
    """`x` with that share of its rows 0, and the others larger for it."""
    if not share:
        return x
    rows = jax.random.bernoulli(key, 1 - share, (len(x), 1, 1, 1)).astype(x.dtype)
    return x * (1 / (1 - share)) * rows


def _window(model: Swin, level: int) -> int:
    return min(model.window, model.edge(level))
