"""Convolutions: plain, transposed, causal, deformable, and the sum of columns that ends one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import flattened, interpolate, wide
from tilestep.onnx.ops.quick_conv import convolution
from tilestep.onnx.ops.windows import check_auto_pad, checked, extent, split_evenly, windows
from tilestep.onnx.registry import op
from tilestep.onnx.values import has_room, known_ints

Ints = Sequence[int] | None


@op("Conv")
def conv(call: Call, x: Any, w: Any, b: Any = None, *, group: int = 1, kernel_shape: Ints = None, **attributes: Any) -> Any:
    """Convolution of x [N, C, D1, ...] with w [M, C / group, k1, ...], and the bias [M]. Args: attributes: those of `windows`."""
    _check_kernel(w, kernel_shape)
    at = windows(x.shape[2:], w.shape[2:], **attributes)
    if group == 1 and not any(map(any, at.pads)) and {*at.kernel, *at.strides} == {1} and x.shape[1] == w.shape[1]:
        return _with_bias(_pointwise(jnp.asarray(x), w), b)
    return _with_bias(convolution(x, w, at, group), b)


def _pointwise(x: Any, w: Any) -> Any:
    """A convolution whose windows have one element, as a matrix product: XLA:CPU takes half as long for it.

    Channels are last in it, as XLA:CPU has them in all convolutions, so that the transpositions between two layers cancel.
    """
    y = jax.lax.dot_general(jnp.moveaxis(x, 1, -1), jnp.asarray(w.reshape(w.shape[:2])), (((x.ndim - 1,), (1,)), ((), ())))
    return jnp.moveaxis(y, -1, 1)


@op("ConvTranspose")
def conv_transpose(
    call: Call,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    output_padding: Ints = None,
    output_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Any:
    """The transpose of a convolution with w [C, M / group, k1, ...], on x [N, C, D1, ...], and the bias [M].

    Args:
        output_padding: elements at the end of each axis of the result, beyond what its other sizes give.
        output_shape: of the spatial axes; of what stands before them too in some files. The padding follows from it.
    """
    _check_kernel(w, kernel_shape)
    axes = x.ndim - 2
    strides = checked(strides or (1,) * axes, "strides", axes, least=1)
    dilations = checked(dilations or (1,) * axes, "dilations", axes, least=1)
    more = checked(output_padding or (0,) * axes, "output_padding", axes, least=0)
    edges = checked(pads or (0,) * 2 * axes, "pads", 2 * axes, least=0)
    sizes = checked(output_shape[-axes:], "output_shape", axes, least=1) if output_shape else None
    check_auto_pad(auto_pad)
    padding: list[tuple[int, int]] = []
    for axis, (size, stride) in enumerate(zip(x.shape[2:], strides, strict=True)):
        reach = extent(w.shape[2 + axis], dilations[axis])
        spread = (size - 1) * stride + 1  # of x, with zeros between its elements
        whole = spread - 1 + more[axis] + reach  # of the result, without padding
        if sizes or auto_pad.startswith("SAME"):
            output = sizes[axis] if sizes else size * stride
            low, _ = split_evenly(max(0, whole - output), auto_pad)
        else:
            low, high = (edges[axis], edges[axes + axis]) if auto_pad == "NOTSET" else (0, 0)
            output = whole - low - high
        padding.append((reach - 1 - low, output - spread + low))
    y = jax.lax.conv_general_dilated(
        jnp.asarray(x),
        _transposed(jnp.asarray(w), group),
        (1,) * axes,
        padding,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=group,
        dimension_numbers=None if group > 1 else _swapped_channels(x.ndim),
    )
    return _with_bias(y, b)


@op("CausalConvWithState", since=27)
def causal_conv(call: Call, x: Any, w: Any, b: Any = None, past: Any = None, *, activation: str = "none") -> tuple[Any, Any]:
    """Each channel of x [N, C, L] convolved with w [C, 1, k], looking back only, and the last k - 1 inputs for the next call.

    Args: past: the inputs before x, [N, C, k - 1]; zeros if it is absent.
    """
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation is {activation!r}, and may be none, silu or swish")
    before = w.shape[2] - 1
    sequence = jnp.asarray(x) if past is None else jnp.concatenate([past, x], 2)
    at = windows(sequence.shape[2:], w.shape[2:], pads=(before if past is None else 0, 0))
    y = _with_bias(convolution(sequence, w, at, x.shape[1]), b)
    missing = max(0, before - sequence.shape[2])
    present = jnp.pad(sequence, ((0, 0), (0, 0), (missing, 0)))[:, :, sequence.shape[2] + missing - before :]
    return (y if activation == "none" else jax.nn.silu(wide(y)).astype(y.dtype)), present


@op("DeformConv", since=19)
def deform_conv(
    call: Call,
    x: Any,
    w: Any,
    offset: Any,
    b: Any = None,
    mask: Any = None,
    *,
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    offset_group: int = 1,
    pads: Ints = None,
    strides: Ints = None,
) -> Any:
    """A convolution whose elements are moved by offsets and weighted by a mask.

    Args:
        x: [N, C, D1, ...]; between its elements it is linear, outside of them 0.
        w: [M, C / group, k1, ...].
        offset: [N, offset_group * k1 * ... * axes, O1, ...], in elements.
        mask: [N, offset_group * k1 * ..., O1, ...].
    """
    _check_kernel(w, kernel_shape)
    at = windows(x.shape[2:], w.shape[2:], strides=strides, dilations=dilations, pads=pads)
    x, batch, channels, axes = jnp.asarray(x), x.shape[0], x.shape[1], x.ndim - 2
    taps, places = math.prod(at.kernel), math.prod(at.outputs)
    moves = wide(jnp.asarray(offset)).reshape(batch * offset_group, taps, axes, places)
    tap, place = np.indices(at.kernel).reshape(axes, -1), np.indices(at.outputs).reshape(axes, -1)
    points: list[Any] = []
    for axis in range(axes):
        start = place[axis] * at.strides[axis] - at.pads[axis][0]
        still = tap[axis][:, None] * at.dilations[axis] + start
        points.append(flattened(moves[:, :, axis] + still, 1))
    field = flattened(wide(x).reshape(batch * offset_group, channels // offset_group, *at.sizes), 2)

    def pick(position: Any) -> Any:
        return jnp.take_along_axis(field, position[:, None], axis=2)

    columns = interpolate(pick, points, at.sizes, kind="linear", zeros=True, channels=1)
    columns = columns.reshape(batch, offset_group, channels // offset_group, taps, places)
    if mask is not None:
        columns = columns * jnp.asarray(mask).reshape(batch, offset_group, 1, taps, places)
    columns = columns.reshape(batch, group, channels // group, taps, places).astype(x.dtype)
    kernels = jnp.asarray(w).reshape(group, w.shape[0] // group, channels // group, taps)
    return _with_bias(jnp.einsum("ngckp,gmck->ngmp", columns, kernels).reshape(batch, w.shape[0], *at.outputs), b)


@op("Col2Im", since=18, needs=(1, 2))
def col2im(
    call: Call, x: Any, image_shape: Any, block_shape: Any, *, dilations: Ints = None, pads: Ints = None, strides: Ints = None
) -> Any:
    """An image [N, C, D1, ...] as the sum of its blocks: x is [N, C * k1 * ..., blocks]."""
    sizes, block = known_ints(image_shape, "the image's shape"), known_ints(block_shape, "the block's shape")
    at = windows(sizes, block, strides=strides, dilations=dilations, pads=pads)
    axes, channels = len(sizes), x.shape[1] // math.prod(block)
    x = jnp.asarray(x)
    blocks = x.reshape(x.shape[0], channels, *at.kernel, *at.outputs)
    positions: list[Any] = []
    for axis in range(axes):
        position = np.arange(at.kernel[axis])[:, None] * at.dilations[axis] + np.arange(at.outputs[axis]) * at.strides[axis]
        positions.append(np.expand_dims(position, [other for other in range(2 * axes) if other not in (axis, axes + axis)]))
    padded = [size + low + high for size, (low, high) in zip(sizes, at.pads, strict=True)]
    has_room((x.shape[0], channels, *padded), x.dtype)
    total = jnp.zeros((x.shape[0], channels, *padded), x.dtype).at[(slice(None), slice(None), *positions)].add(blocks)
    inner = tuple(slice(low, low + size) for size, (low, _) in zip(sizes, at.pads, strict=True))
    return total[(slice(None), slice(None), *inner)]


def _check_kernel(w: Any, kernel_shape: Ints) -> None:
    if kernel_shape and tuple(kernel_shape) != tuple(w.shape[2:]):
        raise ValueError(f"kernel_shape is {list(kernel_shape)}, and the weights have {list(w.shape[2:])}")


def _with_bias(y: Any, b: Any) -> Any:
    return y if b is None else y + b.reshape(1, -1, *(1,) * (y.ndim - 2))


def _transposed(w: Any, group: int) -> Any:
    """The kernel of the plain convolution that a transposed one is; groups have it as [M, C / group, k1, ...]."""
    flipped = jnp.flip(w, range(2, w.ndim))
    if group == 1:
        return flipped
    inputs, outputs, *kernel = w.shape
    apart = flipped.reshape(group, inputs // group, outputs, *kernel)
    return jnp.swapaxes(apart, 1, 2).reshape(group * outputs, inputs // group, *kernel)


def _swapped_channels(ndim: int) -> jax.lax.ConvDimensionNumbers:
    """ONNX's layout, with the kernel's channels the other way round."""
    plain = tuple(range(ndim))
    return jax.lax.ConvDimensionNumbers(plain, (1, 0, *plain[2:]), plain)
