"""ResNet-50 v1.5 for images of 224 x 224 (He et al. 2015; the stride stands in the 3x3 convolutions, as in torchvision).

For inference batch norm is folded into the convolutions, or takes kept statistics; for training it is computed. With 8-bit kernels
everything between the convolutions stays in halves, as in PopRT: each convolution's input is cast, its result is halves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Params = dict[str, Any]
Stage = tuple[int, int, int]

STAGES: Sequence[Stage] = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # (width, blocks, stride of the first)
EXPANSION = 4
RESNEXT_STAGES: Sequence[Stage] = ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2))  # ResNeXt-50 32x4d (Xie et al. 2016)
RESNEXT_EXPANSION, RESNEXT_GROUPS = 2, 32
CLASSES = 1000
IMAGE = 224
LAYERS = ("first_conv", "first_shortcut", "head")  # that have been kept in halves where the others are in 8-bit floats
_MEAN = (0.485, 0.456, 0.406)  # of ImageNet, per colour
_DEVIATION = (0.229, 0.224, 0.225)


def shapes(
    dtype: Any,
    *,
    normalised: bool = False,
    statistics: bool = False,
    kernels: Any = None,
    kept: Collection[str] = (),
    stages: Sequence[Stage] = STAGES,
    expansion: int = EXPANSION,
    groups: int = 1,
) -> Params:
    """Shapes of all parameters.

    Args:
        normalised: batch norm has a scale and an offset of its own (training).
        statistics: and a mean and a variance that were kept (inference).
        kernels: dtype of the kernels, where it is another one than the biases' `dtype`.
        kept: kernels that are of `dtype` all the same, out of `LAYERS`.
        stages: of another network.
        expansion: channels of a block's result over those of its 3x3 convolution.
        groups: of that convolution.
    Raises: ValueError for a layer that has no name here.
    """
    if unknown := set(kept) - set(LAYERS):
        raise ValueError(f"{', '.join(sorted(unknown))}: no such layer has a name; {', '.join(LAYERS)} have")

    def array(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, dtype)

    def kernel(name: str, *dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, dtype if kernels is None or name in kept else kernels)

    def conv(size: int, inputs: int, outputs: int, name: str = "") -> Params:
        norm = {name: array(outputs) for name in (("scale", "mean", "variance") if statistics else ("scale",) if normalised else ())}
        return {"kernel": kernel(name, size, size, inputs, outputs), "bias": array(outputs), **norm}

    blocks: list[Params] = []
    inputs = 64
    for width, count, _ in stages:
        for index in range(count):
            outputs = width * expansion
            block = {"reduce": conv(1, inputs, width), "spatial": conv(3, width // groups, width), "expand": conv(1, width, outputs)}
            name = "" if blocks else "first_shortcut"
            blocks.append(block if index else {**block, "shortcut": conv(1, inputs, outputs, name)})
            inputs = outputs
    head = {"kernel": kernel("head", inputs, CLASSES), "bias": array(CLASSES)}
    return {"stem": conv(7, 3, 64, "first_conv"), "blocks": blocks, "head": head}


def forward(params: Params, images: jax.Array, stages: Sequence[Stage] = STAGES) -> jax.Array:
    """[batch, CLASSES] logits of [batch, IMAGE, IMAGE, 3] images; images of bytes are normalised first."""
    x = _normalised(images, params["head"]["bias"].dtype) if images.dtype == jnp.uint8 else images
    x = jax.nn.relu(_conv(params["stem"], x, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    blocks = iter(params["blocks"])
    for _, count, stride in stages:
        for index in range(count):
            x = _block(next(blocks), x, 1 if index else stride)
    head = params["head"]
    x = x.mean((1, 2))
    return jnp.matmul(x.astype(head["kernel"].dtype), head["kernel"], preferred_element_type=x.dtype) + head["bias"]


def _block(params: Params, x: jax.Array, stride: int) -> jax.Array:
    y = jax.nn.relu(_conv(params["reduce"], x, 1))
    y = jax.nn.relu(_conv(params["spatial"], y, stride))
    y = _conv(params["expand"], y, 1)
    return jax.nn.relu(y + (_conv(params["shortcut"], x, stride) if "shortcut" in params else x))


def _conv(params: Params, x: jax.Array, stride: int) -> jax.Array:
    """A convolution that keeps the size of the field but for the stride, and batch norm where it is not folded.

    8-bit kernels want an 8-bit input. A scale is a power of two that goes with the format (PopRT's fp8_params), and costs nothing.
    """
    kernel = params["kernel"]
    edge = ((kernel.shape[0] - 1) // 2,) * 2
    labels = ("NHWC", "HWIO", "NHWC")
    if kernel.dtype == x.dtype:
        y = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), (edge, edge), dimension_numbers=labels, feature_group_count=x.shape[-1] // kernel.shape[2]
        )
    else:
        narrow = x.astype(kernel.dtype)
        y = jax.lax.conv_general_dilated(
            narrow, kernel, (stride, stride), (edge, edge), dimension_numbers=labels, preferred_element_type=x.dtype
        )
    if "scale" not in params:
        return y + params["bias"]
    if "mean" in params:
        scale = params["scale"] * jax.lax.rsqrt(params["variance"] + jnp.asarray(1e-5, y.dtype))
        return y * scale + (params["bias"] - params["mean"] * scale)
    mean = y.mean((0, 1, 2), dtype=jnp.float32)
    variance = jnp.square(y.astype(jnp.float32)).mean((0, 1, 2)) - jnp.square(mean)
    scale = params["scale"] * jax.lax.rsqrt(variance + 1e-5).astype(y.dtype)
    return (y - mean.astype(y.dtype)) * scale + params["bias"]


def _normalised(images: jax.Array, dtype: Any) -> jax.Array:
    deviation = jnp.asarray(_DEVIATION, dtype)
    return images.astype(dtype) * (1 / (255 * deviation)) - jnp.asarray(_MEAN, dtype) / deviation
