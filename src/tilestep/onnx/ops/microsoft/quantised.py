"""What the quantiser writes: products of integers that give floats, and operators between quantised arrays."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.math.activations import leaky_relu, sigmoid, softmax, softmax_from_axis
from tilestep.onnx.ops.math.elementwise import rounded_quotient
from tilestep.onnx.ops.microsoft.limits import MS
from tilestep.onnx.ops.nn.pool import average_pool, global_average_pool
from tilestep.onnx.ops.nn.recurrent import lstm
from tilestep.onnx.ops.quantise import distances, dynamic_quantize_linear, exact, requantized, rounded_to, rows_of

_SOFTMAX = 13  # since which version it is over one axis


@op("MatMulIntegerToFloat", domain=MS)
def matmul_integer_to_float(
    call: Call, a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero_point: Any = None, b_zero_point: Any = None, bias: Any = None
) -> Any:
    """The product of quantised a and b as float32, plus the bias. Vectors of b's scales and zero points belong to its columns."""
    product = jnp.matmul(distances(a, rows_of(a_zero_point, a)), distances(b, b_zero_point))
    y = exact(product) * (exact(rows_of(a_scale, a)) * exact(b_scale))
    return y if bias is None else y + bias


@op("DynamicQuantizeMatMul", domain=MS)
def dynamic_quantize_matmul(call: Call, a: Any, b: Any, b_scale: Any, b_zero_point: Any = None, bias: Any = None) -> Any:
    """The product of a, which is quantised as DynamicQuantizeLinear does, and a quantised b as float32, plus the bias."""
    codes, scale, zero = dynamic_quantize_linear(call, a)
    return matmul_integer_to_float(call, codes, b, scale, b_scale, zero, b_zero_point, bias)


@op("DynamicQuantizeLSTM", domain=MS)
def dynamic_quantize_lstm(call: Call, x: Any, w: Any, r: Any, *inputs: Any, **attributes: Any) -> Any:
    """LSTM whose weights are quantised: w [directions, inputs, 4 * hidden], r [directions, hidden, 4 * hidden].

    Inputs, of all times together, and the hidden states of each time are quantised as DynamicQuantizeLinear does. A scale and a zero point
    are of a direction, or [directions, 4 * hidden].
    """

    def weights(codes: Any, scale: Any, zero: Any) -> Any:
        shape = (codes.shape[0], 1, -1)
        return jnp.swapaxes(distances(codes, zero.reshape(shape)).astype(np.float32) * scale.reshape(shape), 1, 2)

    def nearest(array: Any) -> Any:
        codes, scale, zero = dynamic_quantize_linear(call, array)
        return exact(distances(codes, zero)) * scale

    others, (w_scale, w_zero, r_scale, r_zero) = inputs[:-4], inputs[-4:]
    return lstm(call, x, weights(w, w_scale, w_zero), weights(r, r_scale, r_zero), *others, left=nearest, **attributes)


@op("QGemm", domain=MS)
def quantised_gemm(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    c: Any = None,
    y_scale: Any = None,
    y_zero_point: Any = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """alpha * A @ B plus an int32 C in units of both scales, quantised, or float32 without a scale of its own."""
    left = distances(a, a_zero_point)
    right = distances(b, b_zero_point if not transB or b_zero_point.ndim == 0 else b_zero_point[:, None])
    product = jnp.matmul(left.T if transA else left, right.T if transB else right)
    product = product if c is None else product + c
    scale = np.float32(alpha) * exact(a_scale) * exact(b_scale)
    if y_scale is None:
        return exact(product) * scale
    return requantized(product, scale / exact(y_scale), y_zero_point)


# ---- operators between quantised arrays: of real numbers, whose result is rounded


def _real(x: Any, scale: Any, zero: Any) -> Any:
    return exact(distances(x, zero)) * exact(scale)


def _quantised(real: Any, scale: Any, zero: Any, dtype: Any, *, shifted: bool = False) -> Any:
    """Real numbers as `dtype`. Args: shifted: whether halves go to the even number after the zero point is added, not before."""
    quotient = rounded_quotient(real, exact(scale))
    if shifted and zero is not None:
        quotient, zero = quotient + exact(zero), None
    return rounded_to(quotient, zero, np.dtype(dtype), saturate=True)


def _two(name: str, function: Callable[..., Any]) -> None:
    @op(name, domain=MS)
    def handler(call: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any = None) -> Any:
        parts = exact(distances(a, a_zero)), exact(distances(b, b_zero))
        made = function(*parts, exact(a_scale), exact(b_scale), exact(scale))
        return rounded_to(made if zero is None else made + exact(zero), None, a.dtype, saturate=True)

    handler.__doc__ = f"{name.removeprefix('QLinear')} of quantised arrays, quantised. Halves go to the even number with the zero point."


def _one(name: str, function: Callable[..., Any], *, shifted: bool = False) -> None:
    @op(name, domain=MS)
    def handler(call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, **attributes: Any) -> Any:
        return _quantised(function(call, _real(x, x_scale, x_zero), **attributes), scale, zero, x.dtype, shifted=shifted)

    handler.__doc__ = f"{name.removeprefix('QLinear')} of a quantised array, quantised."


def _softmax(call: Call, x: Any, *, opset: int, axis: int | None = None) -> Any:
    function, default = (softmax, -1) if opset >= _SOFTMAX else (softmax_from_axis, 1)
    return function(call, x, axis=default if axis is None else axis)


def _in_layout(pool: Callable[..., Any]) -> Callable[..., Any]:
    """A pool with channels last if that is said."""

    def run(call: Call, x: Any, *, channels_last: int = 0, **attributes: Any) -> Any:
        return jnp.moveaxis(pool(call, jnp.moveaxis(x, -1, 1), **attributes), 1, -1) if channels_last else pool(call, x, **attributes)

    return run


_two("QLinearAdd", lambda a, b, a_scale, b_scale, scale: a * (a_scale / scale) + b * (b_scale / scale))
_two("QLinearMul", lambda a, b, a_scale, b_scale, scale: a * b * (a_scale * b_scale / scale))
_one("QLinearSigmoid", sigmoid)
_one("QLinearLeakyRelu", lambda call, x, *, alpha=0.01: leaky_relu(call, x, alpha=alpha))
_one("QLinearSoftmax", _softmax)
_one("QLinearAveragePool", _in_layout(average_pool), shifted=True)
_one("QLinearGlobalAveragePool", _in_layout(global_average_pool))


@op("QLinearConcat", domain=MS)
def qlinear_concat(call: Call, scale: Any, zero: Any, *inputs: Any, axis: int) -> Any:
    """Arrays with scales and zero points of their own behind one another, quantised. Inputs are an array, its scale, its zero point, ..."""
    parts = zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    return jnp.concatenate([_quantised(_real(*part), scale, zero, zero.dtype) for part in parts], axis)
