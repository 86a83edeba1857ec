"""Convolutions: plain, transposed, causal, deformable, and the sum of columns that ends one.

Other platforms have one operation of XLA for each of them. So has the derivative on all platforms: it keeps the operands for the backward
pass, and nothing else.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import has_room, is_known, known_ints
from tilestep.onnx.ops.interpolation import flattened, interpolate, wide
from tilestep.onnx.ops.nn.windows import Windows, check_auto_pad, checked, extent, split_evenly, windows

MOST_TAPS: Final = 64  # elements of a window, each of which is an operation to compile
MOST_WINDOW_ELEMENTS: Final = 1 << 26  # a product has them all in memory

_Form = Callable[[Any, Any, Windows, int], Any]


def convolution(x: Any, w: Any, at: Windows, group: int) -> Any:
    """A convolution of x [N, C, D1, ...] with w [M, C / group, k1, ...], in their dtype, which is the same."""
    are_constants = is_known(w)  # XLA lays them out when it compiles
    x, w = jnp.asarray(x), jnp.asarray(w)
    form = _quick_form(x, w, at, group, are_constants)
    return plain(x, w, at, group) if form is None else _with_form(x, w, at, group, form)


def plain(x: Any, w: Any, at: Windows, group: int) -> Any:
    """One operation of XLA."""
    return jax.lax.conv_general_dilated(x, w, at.strides, at.padding, rhs_dilation=at.dilations, feature_group_count=group)


def _quick_form(x: Any, w: Any, at: Windows, group: int, are_constants: bool) -> _Form | None:
    """The quick form of a convolution that is slow as one operation; None if it is not, or does not fit its weights."""
    taps, outputs = math.prod(at.kernel), len(x) * math.prod(at.outputs)
    if x.shape[1] != w.shape[1] * group or w.shape[0] % group or taps > MOST_TAPS:
        return None
    if 1 < group == x.shape[1]:
        return _summed
    is_whole = not jnp.issubdtype(x.dtype, jnp.floating)  # XLA:CPU has no kernels for integers
    # Windows are put in rows sooner than kernels are transposed; a product of halves would add halves.
    are_few = outputs < len(w) and group == 1 and x.dtype.itemsize > 2 and not are_constants
    return _multiplied if (is_whole or are_few) and outputs * x.shape[1] * taps <= MOST_WINDOW_ELEMENTS else None


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
@functools.partial(jax.jit, static_argnums=(2, 3, 4), inline=True)  # so that a call that is not traced finds its program again
def _with_form(x: Any, w: Any, at: Windows, group: int, form: _Form) -> Any:
    quick, one = (functools.partial(function, at=at, group=group) for function in (form, plain))
    return jax.lax.platform_dependent(x, w, cpu=quick, default=one)


@functools.partial(_with_form.defjvp, symbolic_zeros=True)
def _with_form_jvp(at: Windows, group: int, form: _Form, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    pairs = (tangents[0], primals[1]), (primals[0], tangents[1])
    parts = [plain(*pair, at, group) for pair in pairs if not any(isinstance(value, SymbolicZero) for value in pair)]
    y = _with_form(*primals, at, group, form)
    return y, sum(parts[1:], parts[0]) if parts else jnp.zeros_like(y)


def _elements(x: Any, at: Windows) -> Iterator[Any]:
    """For each element of a window: what all windows have there, [N, O1, ..., C]. Channels are last, so that they are vectors."""
    field = jnp.pad(jnp.moveaxis(x, 1, -1), ((0, 0), *at.padding, (0, 0)))
    for tap in np.ndindex(*at.kernel):
        starts = [index * dilation for index, dilation in zip(tap, at.dilations, strict=True)]
        ends = [start + (count - 1) * stride + 1 for start, count, stride in zip(starts, at.outputs, at.strides, strict=True)]
        yield jax.lax.slice(field, (0, *starts, 0), (len(x), *ends, x.shape[1]), (1, *at.strides, 1))


def _summed(x: Any, w: Any, at: Windows, group: int) -> Any:
    """Each channel by itself: products of elements and kernels, one after the other. Halves are added as float32."""
    sums = jnp.promote_types(x.dtype, np.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    kernels = w.reshape(len(w), -1).T.astype(sums)
    spread = jnp.repeat(x, len(w) // group, axis=1)  # the same array if a channel makes one
    products = (part.astype(sums) * kernel for part, kernel in zip(_elements(spread, at), kernels, strict=True))
    return jnp.moveaxis(functools.reduce(jax.lax.add, products).astype(x.dtype), -1, 1)


def _multiplied(x: Any, w: Any, at: Windows, group: int) -> Any:
    """The product of the kernels and of all windows, which stand in rows for it."""
    length, outputs = w[0].size, len(x) * math.prod(at.outputs)
    rows = jnp.stack(list(_elements(x, at)), axis=-1).reshape(outputs, group, length)
    y = jax.lax.dot_general(w.reshape(group, len(w) // group, length), rows, (((2,), (2,)), ((0,), (1,))))
    return jnp.moveaxis(y.reshape(len(w), len(x), *at.outputs), 0, 1)


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
        spread_size = (size - 1) * stride + 1  # zeros lie between the elements of x
        unpadded_size = spread_size - 1 + more[axis] + reach
        if sizes or auto_pad.startswith("SAME"):
            output = sizes[axis] if sizes else size * stride
            low, _ = split_evenly(max(0, unpadded_size - output), auto_pad)
        else:
            low, high = (edges[axis], edges[axes + axis]) if auto_pad == "NOTSET" else (0, 0)
            output = unpadded_size - low - high
        padding.append((reach - 1 - low, output - spread_size + low))
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
