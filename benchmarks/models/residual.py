"""Training of ResNet (He et al. 2015; v1.5) and ResNeXt (Xie et al. 2016) in units that recomputation and pipelines cut between.

Unit 0 is the stem with its pooling, the others are bottlenecks; behind the last come the mean over the field and the classifier.
Source: graphcore/examples@f60a6b3 vision/cnns/tensorflow1/training/Models/resnet_base.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from benchmarks.models.layers import array, conv, log_softmax, max_pool
from benchmarks.models.norms import batch_norm, group_norm, rectified

Params = dict[str, Any]

IMAGE, CLASSES, EXPANSION = 224, 1000, 4
_STEM = 64
_MEAN = (0.485, 0.456, 0.406)  # of ImageNet, per colour
_DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Sizes of a network, and how it is normed.

    Attributes:
        blocks: bottlenecks of each stage.
        groups: of the bottlenecks' convolutions over the field.
        group_width: channels of such a group in the first stage; each stage has twice those of the one before.
        norm: over the batch, or over groups of channels of each image.
        norm_groups: of a group norm.
        norm_replicas: neighbouring replicas that share the statistics of a batch norm.
        stable: how a batch norm computes the variance, see `batch_norm`.
        smoothing: share of a label that all classes but its own divide.
    """

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    groups: int = 1
    group_width: int = 64
    norm: Literal["batch", "group"] = "batch"
    norm_groups: int = 32
    norm_replicas: int = 1
    stable: bool = False
    smoothing: float = 0.1

    @property
    def units(self) -> tuple[tuple[int, int], ...]:
        """(stage, unit within it) of each bottleneck, counted from 1 as in the layers' names."""
        return tuple((stage, unit) for stage, count in enumerate(self.blocks, 1) for unit in range(1, count + 1))

    def after(self, name: str) -> int:
        """How many units there are up to the named one: 'stage2/unit3' is the second stage's third bottleneck.

        Raises: ValueError for a name of none.
        """
        found = re.match(r"stage(\d+)/unit(\d+)", name)
        place = (int(found[1]), int(found[2])) if found else None
        if place not in self.units:
            raise ValueError(f"{name!r} names no unit: there are {', '.join(f'stage{s}/unit1-{n}' for s, n in enumerate(self.blocks, 1))}")
        return self.units.index(place) + 2


def parameters(model: Residual, first: int = 0, last: int | None = None, dtype: Any = jnp.float16) -> list[Params]:
    """Shapes of the parameters of units `first` to `last` (excluded); None: to the end, and the classifier after it."""

    def normed(size: int, inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, size, size, inputs, outputs), "scale": array(dtype, outputs), "offset": array(dtype, outputs)}

    found = [{"stem": normed(7, 3, _STEM)}]
    inputs = _STEM
    for stage, unit in model.units:
        outputs = _STEM * EXPANSION << (stage - 1)
        width = model.groups * model.group_width << (stage - 1)
        block = {
            "reduce": normed(1, inputs, width),
            "spatial": normed(3, width // model.groups, width),
            "expand": normed(1, width, outputs),
        }
        found.append(block | ({"shortcut": normed(1, inputs, outputs)} if unit == 1 else {}))
        inputs = outputs
    classifier = {"kernel": array(dtype, inputs, CLASSES), "bias": array(dtype, CLASSES)}
    return found[first:last] if last is not None else [*found[first:], classifier]


def normalised(images: jax.Array, dtype: Any = jnp.float16) -> jax.Array:
    """Images of bytes as ImageNet's networks want them."""
    factors = [1 / (255 * deviation) for deviation in _DEVIATION]
    offsets = [mean / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)]
    factor, offset = (jnp.stack([jnp.full((), value, dtype) for value in values]) for values in (factors, offsets))  # a stage captures none
    return images.astype(dtype) * factor - offset


def unit(model: Residual, params: Params, x: jax.Array, number: int) -> jax.Array:
    """What unit `number` makes of [batch, rows, columns, channels]."""
    if not number:
        y = rectified(_normed(model, params["stem"], x, 2))
        return max_pool(y, 3, "SAME")
    stage, place = model.units[number - 1]
    stride = 2 if place == 1 and stage > 1 else 1
    y = rectified(_normed(model, params["reduce"], x, 1))
    y = rectified(_normed(model, params["spatial"], y, stride, model.groups))
    y = _normed(model, params["expand"], y, 1)
    return rectified(y + (_normed(model, params["shortcut"], x, stride) if "shortcut" in params else x))


def classified(params: Params, x: jax.Array) -> jax.Array:
    """[batch, CLASSES] scores of the last unit's result."""
    return x.mean((1, 2)) @ params["kernel"] + params["bias"]


def segment(model: Residual, params: Sequence[Params], x: jax.Array, first: int) -> jax.Array:
    """What successive units make of x; the first of them is number `first`."""
    for number, own in enumerate(params, first):
        x = unit(model, own, x, number)
    return x


def loss(model: Residual, cuts: Sequence[int], params: Sequence[Params], images: jax.Array, labels: jax.Array) -> jax.Array:
    """Of [batch, rows, columns, 3] bytes and int32[batch]. Between two cuts the backward pass computes all values again."""
    x, begin = normalised(images, params[-1]["bias"].dtype), 0
    for cut in cuts:
        x = jax.checkpoint(lambda own, x, begin=begin: segment(model, own, x, begin))(params[begin:cut], x)
        begin = cut
    return smoothed_cross_entropy(classified(params[-1], segment(model, params[begin:-1], x, begin)), labels, model.smoothing)


def smoothed_cross_entropy(scores: jax.Array, labels: jax.Array, smoothing: float) -> jax.Array:
    """Mean over the batch, in float32. Args: scores: [batch, classes]; labels: int32[batch]; smoothing: see `Residual`."""
    others = smoothing / (scores.shape[-1] - 1)
    targets = jax.nn.one_hot(labels, scores.shape[-1], dtype=jnp.float32) * (1 - smoothing - others) + others
    return -(targets * log_softmax(scores.astype(jnp.float32))).sum(-1).mean()


def _normed(model: Residual, params: Params, x: jax.Array, stride: int, groups: int = 1) -> jax.Array:
    """A convolution that keeps the size of the field but for the stride, and its norm."""
    edge = ((params["kernel"].shape[0] - 1) // 2,) * 2
    y = conv(params["kernel"], x, stride, (edge, edge), groups)
    if model.norm == "batch":
        return batch_norm(y, params["scale"], params["offset"], model.norm_replicas, model.stable)
    return group_norm(y, params["scale"], params["offset"], model.norm_groups)
