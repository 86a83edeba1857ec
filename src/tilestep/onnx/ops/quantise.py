"""Quantised operators: numbers that are a scale times the distance of an integer, or of a float of few bits, from a zero point."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.convert import convert
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known, module_for, module_of
from tilestep.onnx.ops.math.elementwise import rounded_quotient
from tilestep.onnx.ops.nn.conv import conv
from tilestep.onnx.ops.tensor.casts import dtype_of
from tilestep.onnx.ops.tensor.shapes import normal_axis

Ints = Sequence[int] | None
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


def exact(x: Any) -> Any:
    """Numbers of 16 bits and fewer as float32, which holds them all; and numbers of 32."""
    return x.astype(np.float32) if is_known(x) else jnp.asarray(x).astype(np.float32)


def _along(scale: Any, shape: Sequence[int], axis: int, block_size: int) -> Any:
    """A scale or a zero point in a shape that broadcasts: for all elements, for each index of an axis, or for blocks of the axis."""
    if scale.size == 1 and scale.ndim < 2:
        return scale.reshape(())
    axis = 0 if len(shape) == 1 else normal_axis(axis, len(shape))
    length = shape[axis]
    if scale.ndim == 1 and not block_size:
        if scale.shape[0] != length:
            raise ValueError(f"{scale.shape[0]} scales for the {length} of axis {axis}")
        return scale.reshape([length if i == axis else 1 for i in range(len(shape))])
    others = [n for i, n in enumerate(scale.shape) if i != axis]
    if scale.ndim != len(shape) or others != [n for i, n in enumerate(shape) if i != axis]:
        raise ValueError(f"scales {list(scale.shape)} fit no blocks along axis {axis} of {list(shape)}")
    size = block_size or -(-length // max(scale.shape[axis], 1))
    if -(-length // size) != scale.shape[axis]:
        raise ValueError(f"{scale.shape[axis]} blocks of {size} don't make up the {length} of axis {axis}")
    repeated = module_of(scale).repeat(scale, size, axis)
    return repeated[tuple(slice(length) if i == axis else slice(None) for i in range(len(shape)))]


def rounded_to(real: Any, zero_point: Any, dtype: np.dtype[Any], saturate: bool) -> Any:
    """Quotients as `dtype`: integers are rounded to the nearest, halves to the even one, and limited; NaN becomes the zero point.

    Args: zero_point: in a shape that broadcasts; None is 0.
    """
    xp = module_of(real)
    zero = np.float32(0) if zero_point is None else exact(zero_point)
    if not jnp.issubdtype(dtype, jnp.integer):
        return convert(exact(real) + zero, dtype, saturate)
    limits = jnp.iinfo(dtype)
    whole = xp.rint(exact(real))
    return convert(xp.clip(xp.where(xp.isnan(whole), zero, whole + zero), int(limits.min), int(limits.max)), dtype)


@op("QuantizeLinear", since=10)
def quantize_linear(
    call: Call,
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """x / scale + zero point, rounded and limited to the zero point's type, `output_dtype`, or uint8.

    The division has the precision that is asked for, or else that of the scale.
    """
    dtype = dtype_of(output_dtype) if output_dtype else np.dtype(np.uint8)
    if zero_point is not None and not output_dtype:
        dtype = zero_point.dtype
    elif zero_point is not None and zero_point.dtype != dtype:
        raise ValueError(f"the zero point is {zero_point.dtype}, and the output is to be {dtype}")
    divided = dtype_of(precision) if precision else scale.dtype if scale.dtype.name in _FLOATS else np.dtype(np.float32)
    xp = module_for(x.shape, np.float32, x, scale, zero_point)
    divisor = _along(scale, x.shape, axis, block_size)
    zero = None if zero_point is None else _along(zero_point, x.shape, axis, block_size)
    quotient = rounded_quotient(xp.asarray(x).astype(divided), xp.asarray(divisor).astype(divided))
    return rounded_to(quotient, zero, dtype, bool(saturate))


@op("DequantizeLinear", since=10)
def dequantize_linear(
    call: Call, x: Any, scale: Any, zero_point: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    """(x - zero point) * scale, with the scale's type or `output_dtype`. It is computed as float32, and rounded once."""
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype if scale.dtype.name in _FLOATS else np.dtype(np.float32)
    xp = module_for(x.shape, np.float32, x, scale, zero_point)
    distance = xp.asarray(x)
    if zero_point is not None:
        zero = _along(zero_point, x.shape, axis, block_size)
        wide = np.int32 if jnp.issubdtype(x.dtype, jnp.integer) else np.float32
        distance = distance.astype(wide) - zero.astype(wide)
    return (exact(distance) * exact(_along(scale, x.shape, axis, block_size))).astype(dtype)


@op("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, x: Any) -> tuple[Any, Any, Any]:
    """(x as uint8, scale, zero point) so that 0 and all of x are in range. If all of x is 0, the scale is 1."""
    xp = module_of(x)
    low, high = xp.minimum(xp.min(x), np.float32(0)), xp.maximum(xp.max(x), np.float32(0))
    scale = xp.where(high > low, rounded_quotient(high - low, np.float32(255)), np.float32(1))
    zero = convert(xp.clip(xp.rint(rounded_quotient(-low, scale)), 0, 255), np.uint8)
    return rounded_to(rounded_quotient(x, scale), zero, np.dtype(np.uint8), saturate=True), scale, zero


# ---- products of quantised arrays


def distances(x: Any, zero_point: Any) -> Any:
    """x minus its zero point, as int32; as float32 if it has floats."""
    wide = np.int32 if jnp.issubdtype(x.dtype, jnp.integer) else np.float32
    x = jnp.asarray(x).astype(wide)
    return x if zero_point is None else x - zero_point.astype(wide)


def rows_of(value: Any, x: Any) -> Any:
    """A zero point or a scale of the left operand: a vector has one for each row."""
    return value.reshape((-1, 1)) if value is not None and value.ndim == 1 and value.size > 1 and x.ndim > 1 else value


def _for_each(value: Any, axes: int) -> Any:
    """A zero point or a scale of a kernel: a vector has one for each output channel, which is the first of `axes` axes."""
    return value.reshape((-1, *(1,) * (axes - 1))) if value is not None and value.ndim == 1 else value


def requantized(product: Any, scale: Any, zero_point: Any) -> Any:
    """A product of distances, times a scale, in the type of the zero point."""
    return rounded_to(exact(product) * scale, zero_point, zero_point.dtype, saturate=True)


@op("MatMulInteger")
def matmul_integer(call: Call, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """The product of a and b, each minus its zero point, as int32. A vector of zero points has one for each row of a, or column of b."""
    return jnp.matmul(distances(a, rows_of(a_zero_point, a)), distances(b, b_zero_point))


@op("QLinearMatMul")
def qlinear_matmul(
    call: Call, a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any, y_zero_point: Any
) -> Any:
    """The product of quantised a and b, quantised. Vectors of scales and zero points belong to the rows of a, and the columns of b."""
    product = jnp.matmul(distances(a, rows_of(a_zero_point, a)), distances(b, b_zero_point))
    scale = exact(rows_of(a_scale, a)) * exact(b_scale) / exact(rows_of(y_scale, a))
    return requantized(product, scale, rows_of(y_zero_point, a))


def _convolution(call: Call, x: Any, w: Any, zero_points: tuple[Any, Any], b: Any, attributes: Mapping[str, Any]) -> Any:
    """The convolution of distances from the zero points."""
    return conv(call, distances(x, zero_points[0]), distances(w, _for_each(zero_points[1], w.ndim)), b, **attributes)


@op("ConvInteger")
def conv_integer(call: Call, x: Any, w: Any, x_zero_point: Any = None, w_zero_point: Any = None, **attributes: Any) -> Any:
    """The convolution of x and w, each minus its zero point, as int32. What lies outside of x counts as its zero point."""
    return _convolution(call, x, w, (x_zero_point, w_zero_point), None, attributes)


@op("QLinearConv")
def qlinear_conv(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero_point: Any,
    w: Any,
    w_scale: Any,
    w_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
    b: Any = None,
    **attributes: Any,
) -> Any:
    """The convolution of quantised x and w, plus an int32 bias in units of both scales, quantised."""
    product = _convolution(call, x, w, (x_zero_point, w_zero_point), b, attributes)
    scale = exact(x_scale) * exact(_for_each(w_scale, w.ndim - 1)) / exact(y_scale)
    return requantized(product, scale, y_zero_point)
