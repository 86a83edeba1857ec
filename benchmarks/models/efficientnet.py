"""Training of EfficientNet (Tan and Le 2019) with convolutions of groups of channels in place of depthwise ones (Masters et al. 2021).

Units are the stem and the blocks; behind the last come a convolution, the mean over the field and the classifier. Dropout of whole
blocks and of the classifier's input is left out: it draws a number for each image.
Source: graphcore/examples@f60a6b3 vision/cnns/tensorflow1/training/Models/efficientnet.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import array, conv
from benchmarks.models.norms import group_norm, swish

Params = dict[str, Any]

CLASSES = 1000
SIZES = {  # of variant Bn: (width, depth, size of an image)
    0: (1.0, 1.0, 224), 1: (1.0, 1.1, 240), 2: (1.1, 1.2, 260), 3: (1.2, 1.4, 300),
    4: (1.4, 1.8, 380), 5: (1.6, 2.2, 456), 6: (1.8, 2.6, 528), 7: (2.0, 3.1, 600),
}  # fmt: skip
_STEM, _TOP = 32, 1280
_BLOCKS = (  # of B0: (kernel, times, channels, stride of the first)
    (3, 1, 16, 1), (3, 2, 24, 2), (5, 2, 40, 2), (3, 3, 80, 2), (5, 3, 112, 1), (5, 4, 192, 2), (3, 1, 320, 1),
)  # fmt: skip
_SQUEEZED = 0.25  # of a block's input channels


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block.

    Attributes:
        name: such as 'block4a', the fourth part's first.
        kernel: rows of the convolution over the field.
        inputs: channels.
        inner: channels of that convolution.
        outputs: channels.
        stride: of that convolution.
    """

    name: str
    kernel: int
    inputs: int
    inner: int
    outputs: int
    stride: int


@dataclass(frozen=True, kw_only=True)
class EfficientNet:
    """Sizes of a network.

    Attributes:
        variant: n of Bn.
        group_width: channels of a group of the convolution over the field.
        expansion: inner channels over a block's inputs, but in the first part.
        norm_groups: of the group norms.
        smoothing: share of a label that all classes but its own divide.
    """

    variant: int
    group_width: int = 16
    expansion: int = 4
    norm_groups: int = 4
    smoothing: float = 0.1

    @property
    def image(self) -> int:
        """Rows of an image."""
        return SIZES[self.variant][2]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All of them, in order."""
        depth, inputs, found = SIZES[self.variant][1], self.channels(_STEM), list[Block]()
        for number, (kernel, times, outputs, stride) in enumerate(_BLOCKS, 1):
            for index in range(math.ceil(depth * times)):
                inner = inputs * (self.expansion if number > 1 else 1)
                wide = self.channels(outputs)
                name = f"block{number}{chr(ord('a') + index)}"
                found.append(Block(name=name, kernel=kernel, inputs=inputs, inner=inner, outputs=wide, stride=1 if index else stride))
                inputs = wide
        return tuple(found)

    def channels(self, count: int) -> int:
        """As many of B0's channels, of this width: a multiple of 8, at most a tenth less."""
        wanted = count * SIZES[self.variant][0]
        found = max(8, int(wanted + 4) // 8 * 8)
        return found + 8 if found < 0.9 * wanted else found

    def before(self, name: str) -> int:
        """How many units there are in front of the named block. Raises: ValueError for a name of none."""
        names = [block.name for block in self.blocks]
        if name not in names:
            raise ValueError(f"{name!r} names no block: there are {', '.join(names)}")
        return names.index(name) + 1


def parameters(model: EfficientNet, first: int = 0, last: int | None = None, dtype: Any = jnp.float16) -> list[Params]:
    """Shapes of the parameters of units `first` to `last` (excluded); None: to the end, and the classifier after it."""

    def normed(size: int, inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, size, size, inputs, outputs), "scale": array(dtype, outputs), "offset": array(dtype, outputs)}

    def dense(inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, inputs, outputs), "bias": array(dtype, outputs)}

    found: list[Params] = [{"stem": normed(3, 3, model.channels(_STEM))}]
    for block in model.blocks:
        squeezed = max(1, int(block.inputs * _SQUEEZED))
        own = {
            "field": normed(block.kernel, block.inner // groups(model, block), block.inner),
            "squeeze": dense(block.inner, squeezed),
            "excite": dense(squeezed, block.inner),
            "project": normed(1, block.inner, block.outputs),
        }
        found.append(own | ({"expand": normed(1, block.inputs, block.inner)} if block.inner > block.inputs else {}))
    top = model.channels(_TOP)
    classifier = {"top": normed(1, model.blocks[-1].outputs, top), "classifier": dense(top, CLASSES)}
    return found[first:last] if last is not None else [*found[first:], classifier]


def groups(model: EfficientNet, block: Block) -> int:
    """Of a block's convolution over the field."""
    return max(block.inner // model.group_width, 1)


def segment(model: EfficientNet, params: Sequence[Params], x: jax.Array, first: int) -> jax.Array:
    """What successive units make of [batch, rows, columns, channels]; the first of them is number `first`."""
    for number, own in enumerate(params, first):
        x = _block(model, model.blocks[number - 1], own, x) if number else swish(_normed(model, own["stem"], x, 2))
    return x


def classified(model: EfficientNet, params: Params, x: jax.Array) -> jax.Array:
    """[batch, CLASSES] scores of the last unit's result."""
    x = swish(_normed(model, params["top"], x))
    return x.mean((1, 2)) @ params["classifier"]["kernel"] + params["classifier"]["bias"]


def _block(model: EfficientNet, block: Block, params: Params, x: jax.Array) -> jax.Array:
    y = swish(_normed(model, params["expand"], x)) if "expand" in params else x
    y = swish(_normed(model, params["field"], y, block.stride, groups(model, block)))
    squeezed = swish(y.mean((1, 2)) @ params["squeeze"]["kernel"] + params["squeeze"]["bias"])
    y = y * jax.nn.sigmoid(squeezed @ params["excite"]["kernel"] + params["excite"]["bias"])[:, None, None]
    y = _normed(model, params["project"], y)
    return x + y if block.stride == 1 and block.inputs == block.outputs else y


def _normed(model: EfficientNet, params: Params, x: jax.Array, stride: int = 1, groups: int = 1) -> jax.Array:
    return group_norm(conv(params["kernel"], x, stride, groups=groups), params["scale"], params["offset"], model.norm_groups)
