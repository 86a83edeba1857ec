"""Pools over windows and over whole images, and the inverse of a maximum."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, has_room, jax_dtype, known_ints, module_of
from tilestep.onnx.ops.interpolation import flattened, wide
from tilestep.onnx.ops.nn.norm import checked_order, power, root
from tilestep.onnx.ops.nn.windows import Windows, checked, windows

Ints = Sequence[int] | None


@op("MaxPool")
def max_pool(call: Call, x: Any, *, kernel_shape: Sequence[int], storage_order: int = 0, **attributes: Any) -> Any:
    """The largest element of each window, and its position in the flattened x without padding.

    Args:
        storage_order: whether positions count the first spatial axis fastest; batch and channels come before in any case.
        attributes: those of `windows`.
    """
    x = jnp.asarray(x)
    at = windows(x.shape[2:], kernel_shape, **attributes)
    if not call.wants(1) and set(at.dilations) == {1}:
        return _reduced(x, at, jax.lax.max, _lowest(x.dtype))
    positions = _positions_of_maxima(jax.lax.stop_gradient(x), at)
    y = jnp.take_along_axis(flattened(x, 2), flattened(positions, 2), axis=2, mode="clip").reshape(positions.shape)
    return y, _in_whole_array(positions, x.shape, bool(storage_order))


@op("AveragePool")
def average_pool(call: Call, x: Any, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **attributes: Any) -> Any:
    """The mean of each window.

    Args:
        count_include_pad: whether padding counts, as zeros; what ceil_mode adds never does.
        attributes: those of `windows`.
    """
    x = jnp.asarray(x)
    at = windows(x.shape[2:], kernel_shape, **attributes)
    counts = functools.reduce(np.multiply.outer, [_counts(at, axis, bool(count_include_pad)) for axis in range(len(at.sizes))])
    divisor = counts if np.ptp(counts) else counts.flat[0]
    return _reduced(x, at, jax.lax.add, 0) / np.asarray(divisor, x.dtype)


@op("LpPool")
def lp_pool(call: Call, x: Any, *, kernel_shape: Sequence[int], p: float = 2, **attributes: Any) -> Any:
    """The norm of order p of each window; p is a float in version 1. Args: attributes: those of `windows`."""
    at = windows(x.shape[2:], kernel_shape, **attributes)
    total = _reduced(power(wide(jnp.asarray(x)), checked_order(p)), at, jax.lax.add, 0)
    return root(total, p).astype(x.dtype)


@op("GlobalMaxPool")
def global_max_pool(call: Call, x: Any) -> Any:
    """The largest element of each channel; spatial axes stay, of length 1."""
    return jnp.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalAveragePool")
def global_average_pool(call: Call, x: Any) -> Any:
    """The mean of each channel; spatial axes stay, of length 1."""
    return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalLpPool")
def global_lp_pool(call: Call, x: Any, *, p: float = 2) -> Any:
    """The norm of order p of each channel; spatial axes stay, of length 1."""
    total = power(wide(jnp.asarray(x)), checked_order(p)).sum(tuple(range(2, x.ndim)), keepdims=True)
    return root(total, p).astype(x.dtype)


@op("MaxUnpool", since=9, needs=(2,))
def max_unpool(
    call: Call, x: Any, positions: Any, output_shape: Any = None, *, kernel_shape: Sequence[int], pads: Ints = None, strides: Ints = None
) -> Any:
    """An array of zeros with the elements of x at `positions`, which count in the flattened result.

    Args: output_shape: of an array that has this result in its first corner, and zeros elsewhere.
    """
    axes = len(kernel_shape)
    steps = checked(strides or (1,) * axes, "strides", axes, least=1)
    edges = checked(pads or (0,) * 2 * axes, "pads", 2 * axes, least=0)
    sizes = [
        (size - 1) * step + kernel - edges[axis] - edges[axes + axis]
        for axis, (size, step, kernel) in enumerate(zip(x.shape[2:], steps, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *sizes)
    x, most = jnp.asarray(x), math.prod(shape)
    if x.size and module_of(positions) is np:
        values = known_ints(positions, "the positions")
        least, largest = min(values), max(values)
        if least < 0 or largest >= most:
            raise ValueError(f"positions are {least} to {largest}, and the result has {most} elements")
    wanted = shape if output_shape is None else known_ints(output_shape, "the output's shape")
    has_room(wanted, x.dtype)
    y = jnp.zeros(most, x.dtype).at[positions.ravel()].set(x.ravel()).reshape(shape)
    return jnp.pad(y, [(0, large - small) for large, small in zip(wanted, shape, strict=True)])


def _reduced(x: Any, at: Windows, combine: Any, start: Any) -> Any:
    """Windows of [N, C, D1, ...] reduced with channels last, as XLA:CPU has them in convolutions: transpositions between the two cancel."""
    ends = (1,)
    y = jax.lax.reduce_window(
        jnp.moveaxis(x, 1, -1),
        np.asarray(start, x.dtype),
        combine,
        ends + at.kernel + ends,
        ends + at.strides + ends,
        ((0, 0), *at.padding, (0, 0)),
        window_dilation=ends + at.dilations + ends,
    )
    return jnp.moveaxis(y, -1, 1)


def _lowest(dtype: Any) -> Any:
    return jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -jnp.inf


def _positions_of_maxima(x: Any, at: Windows) -> Any:
    """Where in its image the first largest element of each window is, int32; ties go to the first one, no number is larger than any."""
    count = math.prod(at.sizes)
    positions = jnp.broadcast_to(jnp.arange(count, dtype=np.int32).reshape(at.sizes), x.shape)

    def larger(a: Any, b: Any) -> Any:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1])) | (a[0] != a[0])
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    ones = (1, 1)
    starts = np.asarray(_lowest(x.dtype), x.dtype), np.int32(count)
    padding = ((0, 0), (0, 0), *at.padding)
    return jax.lax.reduce_window(
        (x, positions), starts, larger, ones + at.kernel, ones + at.strides, padding, window_dilation=ones + at.dilations
    )[1]


def _in_whole_array(positions: Any, shape: Sequence[int], first_fastest: bool) -> Any:
    """Positions in images as positions in the array of all images."""
    dtype = jax_dtype(np.int64)
    if math.prod(shape) > np.iinfo(dtype).max:
        raise ValueError(f"positions in an array of shape {list(shape)} don't fit {dtype}")
    if first_fastest:
        strides = [math.prod(shape[2:axis]) for axis in range(2, len(shape))]
        indices = jnp.unravel_index(positions, shape[2:])
        positions = sum(index * stride for index, stride in zip(indices, strides, strict=True))
    images = jnp.arange(shape[0] * shape[1], dtype=dtype).reshape(*shape[:2], *(1,) * (len(shape) - 2))
    return positions.astype(dtype) + images * math.prod(shape[2:])


def _counts(at: Windows, axis: int, padded: bool) -> Array:
    """How many elements each window has along an axis. Args: padded: whether those of the padding count."""
    low, high = at.pads[axis]
    first = np.arange(at.outputs[axis])[:, None] * at.strides[axis] - low
    position = first + np.arange(at.kernel[axis]) * at.dilations[axis]
    size = at.sizes[axis]
    inside = (position < size + high) if padded else (position >= 0) & (position < size)
    return inside.sum(1)
