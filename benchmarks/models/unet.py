"""Training of U-Net (Ronneberger et al. 2015) for cells in images: convolutions without padding, so that its result is smaller.

The encoder has a level for each number of channels: two convolutions, and a pooling behind all but the last. A level's values, cropped,
go over to the decoder's level of the same size.
Source: graphcore/examples@f60a6b3 vision/unet_medical/tensorflow2/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import LABELS, array, conv, log_softmax, max_pool
from benchmarks.models.norms import rectified
from benchmarks.models.pretraining import dropped

Params = dict[str, Any]

_CROPPED = 4  # rows that two convolutions of 3 x 3 take away


@dataclass(frozen=True, kw_only=True)
class UNet:
    """Sizes of a network.

    Attributes:
        image: rows of an image.
        channels: of each level.
        classes: of a pixel.
        dropout: share of dropped values of the deepest level.
    """

    image: int = 572
    channels: tuple[int, ...] = (64, 128, 256, 512, 1024)
    classes: int = 2
    dropout: float = 0.5

    @property
    def crops(self) -> tuple[int, ...]:
        """Rows of what each level but the deepest hands over: as many as the decoder has there."""
        rows = self.image
        for _ in self.channels[:-1]:
            rows = (rows - _CROPPED) // 2
        found: list[int] = []
        rows -= _CROPPED
        for _ in self.channels[:-1]:
            found.append(2 * rows)
            rows = 2 * rows - _CROPPED
        return tuple(reversed(found))

    @property
    def result(self) -> int:
        """Rows of the result."""
        return self.crops[0] - _CROPPED


def encoder_parameters(model: UNet, level: int, dtype: Any = jnp.float16) -> Params:
    """Shapes of a level's parameters."""
    return _twice(model.channels[level - 1] if level else 1, model.channels[level], dtype)


def widening_parameters(model: UNet, level: int, dtype: Any = jnp.float16) -> Params:
    """Shapes of the parameters of the step up to a level."""
    return _one(2, model.channels[level + 1], model.channels[level], dtype)


def decoder_parameters(model: UNet, level: int, dtype: Any = jnp.float16) -> Params:
    """Shapes of the parameters of a level; the first has the classifier, too."""
    found = _twice(2 * model.channels[level], model.channels[level], dtype)
    return found if level else {**found, "classifier": _one(1, model.channels[0], model.classes, dtype)}


def encoded(model: UNet, params: Params, x: jax.Array, level: int) -> tuple[jax.Array, jax.Array]:
    """A level's values, halved for the next one, and cropped for the decoder."""
    x = _both(params, x)
    edge = (x.shape[1] - model.crops[level]) // 2
    return max_pool(x, 2, "VALID"), x[:, edge : edge + model.crops[level], edge : edge + model.crops[level]]


def deepest(model: UNet, params: Params, x: jax.Array, key: jax.Array) -> jax.Array:
    """The last level's values."""
    return dropped(_both(params, x), model.dropout, key)


def widened(params: Params, x: jax.Array) -> jax.Array:
    """The step up: twice as many rows and columns."""
    y = jax.lax.conv_transpose(x, params["kernel"], (2, 2), "SAME", dimension_numbers=LABELS)
    return rectified(y + params["bias"])


def decoded(params: Params, x: jax.Array, over: jax.Array) -> jax.Array:
    """A level's values, of those from below and those from the encoder; the first level's are scores [batch, rows, columns, classes]."""
    x = _both(params, jnp.concatenate([x, over], -1))
    return conv(params["classifier"]["kernel"], x) + params["classifier"]["bias"] if "classifier" in params else x


def loss(scores: jax.Array, truth: jax.Array) -> jax.Array:
    """Cross entropy, and one minus the share of overlap (Dice). Args: scores, truth: [batch, rows, columns, classes]."""
    batch, classes = scores.shape[0], scores.shape[-1]
    scores, truth = (values.astype(jnp.float32).reshape(batch, -1, classes) for values in (scores, truth))
    logarithms = log_softmax(scores)
    chances = jnp.exp(logarithms)
    overlap = (chances * truth).sum(1)
    dice = (2 * overlap + 1e-6) / ((jnp.square(chances) + jnp.square(truth)).sum(1) + 1e-6)
    return (1 - dice).mean() - (truth * logarithms).sum(-1).mean()


def _both(params: Params, x: jax.Array) -> jax.Array:
    for own in (params["first"], params["second"]):
        x = rectified(conv(own["kernel"], x, padding="VALID") + own["bias"])
    return x


def _one(size: int, inputs: int, outputs: int, dtype: Any) -> Params:
    return {"kernel": array(dtype, size, size, inputs, outputs), "bias": array(dtype, outputs)}


def _twice(inputs: int, outputs: int, dtype: Any) -> Params:
    return {"first": _one(3, inputs, outputs, dtype), "second": _one(3, outputs, outputs, dtype)}
