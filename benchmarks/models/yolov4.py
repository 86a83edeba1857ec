"""YOLOv4-P5 (Wang et al. 2020, "Scaled-YOLOv4"), a detector, for inference: backbone, neck, three heads, and the choice of boxes.

Batch norm is folded into the convolutions where one convolution is in front of it. Behind a concatenation it is computed.
Source: graphcore/examples@429857d(v3.4.0) vision/yolo_v4/pytorch, whose programs choose the boxes on the IPU, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp

from benchmarks.models.layers import array, conv

Params = dict[str, Any]

CLASSES: Final = 80
_OUTPUTS: Final = CLASSES + 5  # of a box: centre, size, whether there is a thing, its class
_STRIDES: Final = (8, 16, 32)
_ANCHORS: Final = (
    ((13, 17), (31, 25), (24, 51), (61, 45)),
    ((48, 102), (119, 96), (97, 189), (217, 184)),
    ((171, 384), (324, 451), (616, 618), (800, 800)),
)  # width and height of boxes, by stride
_BACKBONE: Final = ((64, 1), (128, 3), (256, 15), (512, 15), (1024, 7))  # channels and residual blocks of each level
_POOLED: Final = (5, 9, 13)
_IN_NECK: Final = 3  # pairs of convolutions
_EPSILON: Final = 1e-3
_LIKELIEST, _CHOSEN = 2000, 300  # boxes that are compared, and boxes of a result
_SCORE, _OVERLAP = 0.4, 0.65  # thresholds


def shapes(dtype: Any = jnp.float16) -> Params:
    """Shapes of all parameters."""

    def one(inputs: int, outputs: int, size: int = 1) -> Params:
        return {"kernel": array(dtype, size, size, inputs, outputs), "bias": array(dtype, outputs)}

    def bare(inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, 1, 1, inputs, outputs)}

    def norm(channels: int) -> Params:
        return {name: array(dtype, channels) for name in ("mean", "variance", "scale", "offset")}

    def pair(channels: int) -> Params:
        return {"first": one(channels, channels), "second": one(channels, channels, 3)}

    def level(inputs: int, channels: int, blocks: int) -> Params:
        half = channels // 2
        return {
            "down": one(inputs, channels, 3),
            "left": one(channels, half),
            "right": one(channels, half),
            "blocks": [pair(half)] * blocks,
            "last": one(half, half),
            "joined": one(channels, channels),
        }

    def crossed(inputs: int, channels: int) -> Params:
        both = {"norm": norm(2 * channels), "joined": one(2 * channels, channels)}
        return {"left": one(inputs, channels), "right": bare(channels, channels), "pairs": [pair(channels)] * _IN_NECK, **both}

    def upwards(inputs: int, channels: int, after: Params) -> Params:
        return {"over": one(inputs, channels), "crossed": crossed(2 * channels, channels), "after": after}

    def downwards(inputs: int, channels: int) -> Params:
        half = channels // 2
        return {"down": one(inputs, half, 3), "crossed": crossed(channels, half), "after": one(half, channels, 3)}

    channels = [32, *(count for count, _ in _BACKBONE)]
    pyramid = {
        "left": one(1024, 512),
        "middle": [one(512, 512, 3), one(512, 512)],
        "pooled": [one(2048, 512), one(512, 512, 3)],
        "right": bare(1024, 512),
        "norm": norm(1024),
        "joined": one(1024, 512),
        "after": one(512, 256),
    }
    return {
        "stem": one(3, 32, 3),
        "levels": [level(inputs, count, blocks) for inputs, (count, blocks) in zip(channels, _BACKBONE, strict=False)],
        "pyramid": pyramid,
        "up": [upwards(512, 256, one(256, 128)), upwards(256, 128, one(128, 256, 3))],
        "down": [downwards(128, 512), downwards(256, 1024)],
        "heads": [one(count, len(sizes) * _OUTPUTS) for count, sizes in zip((256, 512, 1024), _ANCHORS, strict=True)],
    }


def forward(params: Params, images: jax.Array) -> tuple[jax.Array, ...]:
    """Boxes of [batch, rows, columns, 3] images: corners, score and class of the best, and how many there are."""
    return chosen(*candidates(params, images))


def candidates(params: Params, images: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """[batch, boxes, 4] corners, [batch, boxes] chances that something is there, [batch, boxes, CLASSES] chances of classes."""
    found = [
        _boxes(conv(own["kernel"], x) + own["bias"], stride, anchors)
        for own, x, stride, anchors in zip(params["heads"], _features(params, images), _STRIDES, _ANCHORS, strict=True)
    ]
    boxes = jnp.concatenate(found, 1)
    centre, half = boxes[..., :2], boxes[..., 2:4] / 2
    return jnp.concatenate([centre - half, centre + half], -1), boxes[..., 4], boxes[..., 5:]


def chosen(corners: jax.Array, scores: jax.Array, classes: jax.Array) -> tuple[jax.Array, ...]:
    """The boxes that stay when those that overlap a better one of their class go.

    Published runs have random weights, so no score passes the threshold, and the loop over boxes ends after its first trip. That
    trip is all that is here.
    """
    scores, places = jax.lax.top_k(scores, min(_LIKELIEST, scores.shape[1]))
    scores = scores * (scores > _SCORE)
    of_class = jnp.take_along_axis(classes, places[..., None], 1) * scores[..., None]
    of_class = (of_class * (of_class > _SCORE)).astype(jnp.float32)
    boxes = jnp.take_along_axis(corners, places[..., None], 1).astype(jnp.float32)
    flat = of_class.reshape(len(of_class), -1)
    best, score = flat.argmax(1), flat.max(1)
    box = jnp.take_along_axis(boxes, (best // CLASSES)[:, None, None], 1)
    width, height = (
        jnp.maximum(jnp.minimum(boxes[..., side + 2], box[..., side + 2]) - jnp.maximum(boxes[..., side], box[..., side]), 0)
        for side in (0, 1)
    )
    shared = width * height
    alike = shared / (_area(boxes) + _area(box) - shared) > _OVERLAP
    here = jnp.arange(CLASSES) == (best % CLASSES)[:, None, None]
    left = jnp.where(alike[..., None] & here, -jnp.inf, of_class)
    result = jnp.concatenate([box, score[:, None, None], (best % CLASSES).astype(jnp.float32)[:, None, None]], -1)
    result = jnp.pad(result, ((0, 0), (0, _CHOSEN - 1), (0, 0)))
    return result, (jax.lax.optimization_barrier(left)[:, 0, 0] > _SCORE).astype(jnp.int32)


def _features(params: Params, images: jax.Array) -> Sequence[jax.Array]:
    """What the heads look at, by stride."""
    x = _mish(params["stem"], images)
    levels: list[jax.Array] = []
    for own in params["levels"]:
        x = _level(own, x)
        levels.append(x)
    _, _, small, middle, large = levels
    large, x = _pyramid(params["pyramid"], large)
    first, second = params["up"]
    middle = _crossed(first["crossed"], jnp.concatenate([_mish(first["over"], middle), _doubled(x)], -1))
    x = _doubled(_mish(first["after"], middle))
    x = _crossed(second["crossed"], jnp.concatenate([_mish(second["over"], small), x], -1))
    found = [_mish(second["after"], x)]
    for own, beside in zip(params["down"], (middle, large), strict=True):
        x = _crossed(own["crossed"], jnp.concatenate([_mish(own["down"], x, 2), beside], -1))
        found.append(_mish(own["after"], x))
    return found


def _level(params: Params, x: jax.Array) -> jax.Array:
    """A cross stage partial block: one half of the channels goes through residual blocks."""
    x = _mish(params["down"], x, 2)
    y = _mish(params["left"], x)
    for own in params["blocks"]:
        y = y + _mish(own["second"], _mish(own["first"], y))
    both = [conv(own["kernel"], z) + own["bias"] for own, z in ((params["last"], y), (params["right"], x))]
    return _mish(params["joined"], _activated(jnp.concatenate(both, -1)))


def _pyramid(params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Spatial pyramid pooling: the largest of windows of three sizes, beside the values themselves."""
    y = _mish(params["left"], x)
    for own in params["middle"]:
        y = _mish(own, y)
    windows = (jax.lax.reduce_window(y, -float("inf"), jax.lax.max, (1, size, size, 1), (1, 1, 1, 1), "SAME") for size in _POOLED)
    y = jnp.concatenate([y, *windows], -1)
    for own in params["pooled"]:
        y = _mish(own, y)
    y = _normed(params["norm"], jnp.concatenate([y, conv(params["right"]["kernel"], x)], -1))
    y = _mish(params["joined"], y)
    return y, _mish(params["after"], y)


def _crossed(params: Params, x: jax.Array) -> jax.Array:
    x = y = _mish(params["left"], x)
    for own in params["pairs"]:
        y = _mish(own["second"], _mish(own["first"], y))
    return _mish(params["joined"], _normed(params["norm"], jnp.concatenate([y, conv(params["right"]["kernel"], x)], -1)))


def _boxes(x: jax.Array, stride: int, anchors: Sequence[tuple[int, int]]) -> jax.Array:
    """[batch, boxes, _OUTPUTS] of one head, in pixels."""
    batch, rows, columns, _ = x.shape
    x = jax.nn.sigmoid(x.reshape(batch, rows, columns, len(anchors), _OUTPUTS).transpose(0, 3, 1, 2, 4))
    down, right = jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij")
    centres = jnp.stack([right, down], -1).astype(x.dtype)
    sizes = jnp.asarray(anchors, x.dtype)[:, None, None]
    placed = (centres + x[..., :2] * 2 - 0.5) * stride
    return jnp.concatenate([placed, jnp.square(x[..., 2:4] * 2) * sizes, x[..., 4:]], -1).reshape(batch, -1, _OUTPUTS)


def _mish(params: Params, x: jax.Array, stride: int = 1) -> jax.Array:
    kernel = params["kernel"]
    edge = (kernel.shape[0] // 2,) * 2
    return _activated(conv(kernel, x, stride, (edge, edge)) + params["bias"])


def _activated(x: jax.Array) -> jax.Array:
    """Mish (Misra 2019), as the source writes it."""
    return x * jnp.tanh(jnp.log(1 + jnp.exp(x)))


def _normed(params: Params, x: jax.Array) -> jax.Array:
    """Batch norm with kept statistics, and Mish."""
    scale = params["scale"] * jax.lax.rsqrt(params["variance"] + jnp.asarray(_EPSILON, x.dtype))
    return _activated(x * scale + (params["offset"] - params["mean"] * scale))


def _doubled(x: jax.Array) -> jax.Array:
    """Each point four times."""
    batch, rows, columns, channels = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (batch, rows, 2, columns, 2, channels)).reshape(batch, 2 * rows, 2 * columns, channels)


def _area(boxes: jax.Array) -> jax.Array:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
