"""Elementwise operators: arithmetic, comparisons, logic, bits, and combinations of several arrays."""

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import convert, lower_bound, operands, upper_bound
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known, is_traced, jax_dtype, module_of

_MOST_MULTIPLIED_POWER: Final = 3  # up to it a power is a product, as XLA would make it


_UNARY: Final = {  # ONNX's name -> NumPy's
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "rint",  # halves go to the even neighbour
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


def _unary(name: str, function: str) -> None:
    @op(name)
    def handler(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
        return getattr(module_of(x), function)(x)

    handler.__doc__ = f"NumPy's `{function}` of each element."


for _name, _function in _UNARY.items():
    _unary(_name, _function)


@op("Erf")
def erf(call: Call, x: Any) -> Any:
    """The error function of each element."""
    return lax.erf(jnp.asarray(x))


@op("IsInf")
def is_inf(call: Call, x: Any, *, detect_negative: int, detect_positive: int) -> Any:
    """Whether each element is infinite, with a sign that is asked for."""
    infinite = module_of(x).isinf(x)
    if not detect_negative:
        infinite = infinite & (x > 0)
    return infinite if detect_positive else infinite & (x < 0)


# ---- two operands


def rounded_quotient(a: Any, b: Any) -> Any:
    """a / b of floats, each rounded once. XLA would multiply by 1 / b where b broadcasts, and end at a neighbour at times."""
    if is_known(a) and is_known(b):
        return a / b
    return a / lax.optimization_barrier(jnp.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)))


def _divide(xp: Any, a: Any, b: Any) -> Any:
    """a / b; integers are truncated towards zero, and division by zero gives a number with all bits set, as in XLA."""
    if not jnp.issubdtype(a.dtype, jnp.integer):
        return a / b if xp is np or is_traced(a) or is_traced(b) else rounded_quotient(a, b)
    if xp is jnp:
        return lax.div(*jnp.broadcast_arrays(a, b))
    quotient, rest = np.divmod(a, b)
    return np.where(b == 0, np.invert(np.zeros((), a.dtype)), quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


def _power(xp: Any, x: Any, y: Any) -> Any:
    """x to the power of y, with x's dtype."""
    single = is_known(y) and y.size == 1 and y.ndim <= x.ndim
    exponent = float(y.reshape(())) if single else math.nan
    if jnp.issubdtype(x.dtype, jnp.integer):
        if jnp.issubdtype(y.dtype, jnp.integer) or exponent.is_integer():
            return _integer_power(xp, x, y.astype(x.dtype))
        real = xp.power(x, y)
        return convert(xp.where(y == xp.rint(y), xp.rint(real), real), x.dtype)  # 3 ** 2.0 may be 8.9999
    if xp is jnp and exponent.is_integer() and 1 <= abs(exponent) <= _MOST_MULTIPLIED_POWER:
        return lax.integer_pow(jnp.asarray(x), int(exponent))
    if xp is np:
        return np.power(x, y).astype(x.dtype)
    real = is_traced(y) and jnp.issubdtype(y.dtype, jnp.inexact)
    return (_real_power(jnp.asarray(x), y) if real else jnp.power(x, y)).astype(jax_dtype(x.dtype))


@jax.custom_jvp
def _real_power(x: Any, y: Any) -> Any:
    return jnp.power(x, y)


@_real_power.defjvp
def _real_power_slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    """It is 0 along the exponent unless x > 0, because next to a whole exponent the others' powers are not real. JAX has NaN there."""
    x, y = primals
    value = jnp.power(x, y)
    along_x = jax.jvp(lambda x: jnp.power(x, y), (x,), (tangents[0],))[1]
    positive = jnp.where(x > 0, x, jnp.ones((), x.dtype))
    return value, along_x + jnp.where(x > 0, jnp.log(positive) * value, 0) * tangents[1]


def _integer_power(xp: Any, x: Any, y: Any) -> Any:
    """Powers of integers. Negative exponents truncate: only 1 and -1 have a power below zero that is not 0."""
    inverse = xp.where(abs(x) == 1, xp.where(y % 2 == 0, xp.ones_like(x), x), xp.zeros_like(x))
    return xp.where(y < 0, inverse, xp.power(x, xp.maximum(y, xp.zeros_like(y))))


def _remainder(xp: Any, a: Any, b: Any) -> Any:
    """a - floor(a / b) * b, with the sign of b."""
    rest = xp.mod(a, b)
    if jnp.issubdtype(a.dtype, jnp.integer):
        return rest
    return xp.where(rest == 0, xp.copysign(xp.zeros_like(rest), b), rest)


def _truncated_remainder(xp: Any, a: Any, b: Any) -> Any:
    """a - trunc(a / b) * b, with the sign of a. The rest of integers for 0 is a, as in XLA."""
    if not jnp.issubdtype(a.dtype, jnp.integer):
        return xp.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, b)) if xp is np else lax.rem(*jnp.broadcast_arrays(a, b))  # jnp.fmod has no rest for 0


def aligned(a: Any, b: Any, axis: int | None, broadcast: int) -> Any:
    """The second operand of a version below 7, with axes added so that NumPy's rules lay it onto the first one.

    Args: axis: of `a` that the first one of `b` meets; None if the last axes meet.
    Raises: ValueError if the shapes don't fit.
    """
    if not broadcast:
        if a.shape != b.shape:
            raise ValueError(f"shapes {list(a.shape)} and {list(b.shape)} differ, and `broadcast` is 0")
        return b
    if b.size == 1:
        return b.reshape(())
    first = a.ndim - b.ndim if axis is None else axis + a.ndim * (axis < 0)
    after = a.ndim - first - b.ndim
    if first < 0 or after < 0 or any(n not in (1, m) for n, m in zip(b.shape, a.shape[first:], strict=False)):
        raise ValueError(f"shape {list(b.shape)} doesn't fit into {list(a.shape)} at axis {first}")
    return b.reshape(b.shape + (1,) * after)


_Compute = Callable[[Any, Any, Any], Any]  # (numpy or jax.numpy, operand, operand) -> result


def _by(function: str) -> _Compute:
    """The function of that name in the module."""
    return lambda xp, a, b: getattr(xp, function)(a, b)


def _binary(name: str, compute: _Compute, meaning: str) -> None:
    """Registers an operator that has existed from version 1, where `axis` and `broadcast` say which axes meet."""

    @op(name, since=1)
    def old(call: Call, a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
        return compute(*operands(a, aligned(a, b, axis, broadcast)))

    @op(name, since=7)
    def new(call: Call, a: Any, b: Any) -> Any:
        return compute(*operands(a, b))

    old.__doc__ = f"{meaning} `broadcast` lays b onto a, from `axis` of a on."
    new.__doc__ = f"{meaning} Shapes broadcast as in NumPy."


def _later_binary(name: str, compute: _Compute, meaning: str) -> None:
    """Registers an operator that has broadcast from its first version on."""

    @op(name)
    def handler(call: Call, a: Any, b: Any) -> Any:
        return compute(*operands(a, b))

    handler.__doc__ = f"{meaning} Shapes broadcast as in NumPy."


_binary("Add", _by("add"), "a + b.")
_binary("Sub", _by("subtract"), "a - b.")
_binary("Mul", _by("multiply"), "a * b.")
_binary("Div", _divide, "a / b, truncated if they are integers.")
_binary("Pow", _power, "a to the power of b, with the dtype of a.")
_binary("And", _by("logical_and"), "Whether both are true.")
_binary("Or", _by("logical_or"), "Whether one is true.")
_binary("Xor", _by("logical_xor"), "Whether exactly one is true.")
_binary("Equal", lambda xp, a, b: xp.equal(a, b).astype(bool), "Whether a is b. They may be text.")
_binary("Greater", _by("greater"), "Whether a > b.")
_binary("Less", _by("less"), "Whether a < b.")
_later_binary("GreaterOrEqual", _by("greater_equal"), "Whether a >= b.")
_later_binary("LessOrEqual", _by("less_equal"), "Whether a <= b.")
_later_binary("BitwiseAnd", _by("bitwise_and"), "The bits that both have.")
_later_binary("BitwiseOr", _by("bitwise_or"), "The bits that one has.")
_later_binary("BitwiseXor", _by("bitwise_xor"), "The bits that exactly one has.")


@op("BitShift")
def bit_shift(call: Call, x: Any, shift: Any, *, direction: str) -> Any:
    """Bits moved LEFT or RIGHT. Signed numbers keep their sign to the right; shifts below 0 or beyond the width move all bits out."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction '{direction}' is neither LEFT nor RIGHT")
    xp, x, shift = operands(x, shift)
    width = 8 * x.dtype.itemsize
    out = (shift < 0) | (shift >= width)
    inside = xp.where(out, xp.zeros_like(shift), shift)
    if direction == "LEFT":
        return xp.where(out, xp.zeros_like(x), xp.left_shift(x, inside))
    sign = xp.where(x < 0, ~xp.zeros_like(x), xp.zeros_like(x))
    return xp.where(out, sign, xp.right_shift(x, inside))


@op("Mod")
def mod(call: Call, a: Any, b: Any, *, fmod: int) -> Any:
    """The rest of a / b, with the sign of b, or with that of a if `fmod` is 1."""
    return (_truncated_remainder if fmod else _remainder)(*operands(a, b))


# ---- any number of operands


def _same_shapes(*values: Any) -> None:
    """Raises: ValueError if shapes differ, which versions below 8 don't allow."""
    if len({value.shape for value in values}) > 1:
        shapes = ", ".join(str(list(value.shape)) for value in values)
        raise ValueError(f"shapes {shapes} differ, and broadcasting came with version 8")


def _variadic(name: str, combine: Callable[..., Any], meaning: str) -> None:
    @op(name, since=1)
    def old(call: Call, *values: Any, consumed_inputs: Any = None) -> Any:
        _same_shapes(*values)
        return combine(*values)

    @op(name, since=8)
    def new(call: Call, *values: Any) -> Any:
        return combine(*values)

    old.__doc__ = f"{meaning} Shapes are equal."
    new.__doc__ = f"{meaning} Shapes broadcast as in NumPy."


def _sum(*values: Any) -> Any:
    xp, *all_values = operands(*values)
    return functools.reduce(xp.add, all_values)


def _mean(*values: Any) -> Any:
    return _sum(*values) / len(values)


def _max(*values: Any) -> Any:
    xp, *all_values = operands(*values, fit=lower_bound)
    return functools.reduce(xp.maximum, all_values)


def _min(*values: Any) -> Any:
    xp, *all_values = operands(*values, fit=upper_bound)
    return functools.reduce(xp.minimum, all_values)


_variadic("Sum", _sum, "The sum of the arrays.")
_variadic("Mean", _mean, "The mean of the arrays.")
_variadic("Max", _max, "The largest of the arrays' elements; NaN if one is NaN.")
_variadic("Min", _min, "The smallest of the arrays' elements; NaN if one is NaN.")


# ---- Clip


def clip(x: Any, low: Any, high: Any) -> Any:
    """x within the bounds, `high` where low > high; None is no bound. Its gradient is 0 outside and at the bounds, as Relu's is."""
    if low is None and high is None:
        return x
    lowest, highest = _limits(x.dtype)
    low = np.asarray(lowest, x.dtype) if low is None else low
    high = np.asarray(highest, x.dtype) if high is None else high
    if is_known(x) and is_known(low) and is_known(high):
        return np.minimum(np.maximum(x, low.reshape(())), high.reshape(()))
    x = jnp.asarray(x)
    bounds = [jnp.asarray(bound, x.dtype).reshape(()) for bound in (lower_bound(low), upper_bound(high))]
    if is_traced(low) or is_traced(high):
        bounds = [jnp.broadcast_to(bound, x.shape) for bound in bounds]  # JAX has no derivative with respect to scalar bounds
    return lax.clamp(bounds[0], x, bounds[1])


def _limits(dtype: Any) -> tuple[Any, Any]:
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return limits.min, limits.max
    return -math.inf, math.inf


@op("Clip", since=1)
def clip_1(call: Call, x: Any, *, min: float | None = None, max: float | None = None, consumed_inputs: Any = None) -> Any:
    """x within [min, max]. A bound that the file doesn't give is none, whatever the schema's default."""
    given = call.node.given
    low = np.asarray(min).astype(x.dtype) if "min" in given else None
    high = np.asarray(max).astype(x.dtype) if "max" in given else None
    return clip(x, low, high)


@op("Clip", since=11)
def clip_11(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    """x within [low, high]; `high` where low > high."""
    return clip(x, low, high)
