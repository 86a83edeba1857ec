"""Elementwise operators: arithmetic, bits, activations, and those that only pass values on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import convert, operands
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known, module_of
from tilestep.popart.ops.describing import DOMAIN
from tilestep.popart.ops.gradients import rounded, without_gradient

# ---- one operand


def _unary(name: str, function: Callable[[Any], Any], meaning: str) -> None:
    @op(name, domain=DOMAIN)
    def handler(call: Call, x: Any) -> Any:
        return function(x)

    handler.__doc__ = meaning


_unary("Expm1", lambda x: module_of(x).expm1(x), "e^x - 1.")
_unary("Log1p", lambda x: module_of(x).log1p(x), "The logarithm of 1 + x.")
_unary(
    "Gelu", lambda x: jax.nn.gelu(jnp.asarray(x), approximate=True), "x times the normal distribution function, which tanh approximates."
)
_unary("GeluErf", lambda x: jax.nn.gelu(jnp.asarray(x), approximate=False), "x times the normal distribution function.")
_unary("Swish", lambda x: jax.nn.silu(jnp.asarray(x)), "x times its sigmoid.")
_unary("BitwiseNot", lambda x: module_of(x).bitwise_not(x), "All bits inverted.")
_unary("NearbyInt", lambda x: rounded(x, module_of(x).rint(x)), "The nearest whole number; halves go to the even one. Its gradient is 0.")
_unary(
    "Round",
    lambda x: rounded(x, lax.round(jnp.asarray(x), lax.RoundingMethod.AWAY_FROM_ZERO)),
    "The nearest whole number; halves go away from zero. Its gradient is 0.",
)
_unary("Detach", without_gradient, "x, through which no gradient goes.")
_unary("Nop", without_gradient, "x. No gradient goes through it, as in the original.")


@op("Scale", domain=DOMAIN)
def scale_by(call: Call, x: Any, *, scale: float = 1.0) -> Any:
    """x times a constant."""
    return x * np.asarray(scale).astype(x.dtype)


@op("IncrementMod", domain=DOMAIN)
def increment_mod(call: Call, x: Any, *, increment: float, modulus: float) -> Any:
    """The rest of (x + increment) / modulus, with the sign of the sum. Both numbers get the type of x first. It has no gradient."""
    steps, turn = (convert(np.asarray(value), x.dtype) for value in (increment, modulus))
    total = without_gradient(x) + steps
    return np.fmod(total, turn) if is_known(total) else lax.rem(total, jnp.broadcast_to(turn, total.shape))


# ---- two operands and more


@op("Atan2", domain=DOMAIN)
def atan2(call: Call, y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from -pi to pi. Its gradient at the origin is 0, where the original's is no number."""
    xp, y, x = operands(y, x)
    return np.arctan2(y, x) if xp is np else _angle(*jnp.broadcast_arrays(y, x))


@jax.custom_jvp
def _angle(y: Any, x: Any) -> Any:
    return jnp.arctan2(y, x)


@_angle.defjvp
def _angle_slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    y, x = primals
    square = y * y + x * x
    scale = jnp.where(square == 0, 0, 1 / jnp.where(square == 0, 1, square))
    return jnp.arctan2(y, x), x * scale * tangents[0] - y * scale * tangents[1]


@op("Fmod", domain=DOMAIN)
def fmod(call: Call, a: Any, b: Any) -> Any:
    """The rest of a / b with the sign of a. Its gradient with respect to a is 1; there is none with respect to b."""
    xp, a, b = operands(a, without_gradient(b))
    return xp.fmod(a, b)


@op("Remainder", domain=DOMAIN)
def remainder(call: Call, a: Any, b: Any) -> Any:
    """The rest of a / b with the sign of b: that of (the rest with the sign of a, plus b) / b. Gradients are those of Fmod."""
    xp, a, b = operands(a, without_gradient(b))
    return xp.fmod(xp.fmod(a, b) + b, b)


def _bitwise(name: str, function: str, meaning: str) -> None:
    @op(name, domain=DOMAIN)
    def handler(call: Call, a: Any, b: Any) -> Any:
        xp, a, b = operands(a, b)
        return getattr(xp, function)(a, b)

    handler.__doc__ = f"{meaning} Shapes broadcast as in NumPy."


_bitwise("BitwiseAnd", "bitwise_and", "The bits that both have.")
_bitwise("BitwiseOr", "bitwise_or", "The bits that one has.")
_bitwise("BitwiseXor", "bitwise_xor", "The bits that exactly one has.")


@op("BitwiseXnor", domain=DOMAIN)
def bitwise_xnor(call: Call, a: Any, b: Any) -> Any:
    """The bits that both have or neither has. Shapes broadcast as in NumPy."""
    xp, a, b = operands(a, b)
    return xp.bitwise_not(xp.bitwise_xor(a, b))


@op("ScaledAdd", domain=DOMAIN)
def scaled_add(call: Call, x: Any, y: Any, a: Any = None, b: Any = None, *, scale0: float = 1.0, scale1: float = 1.0) -> Any:
    """scale0 * x + scale1 * y. The inputs `a` and `b` replace the attributes. It has no gradient."""
    first = np.asarray(scale0).astype(x.dtype) if a is None else a.reshape(()).astype(x.dtype)
    second = np.asarray(scale1).astype(x.dtype) if b is None else b.reshape(()).astype(x.dtype)
    return without_gradient(first * x + second * y.astype(x.dtype))


# ---- values as they are


@op("CopyVarUpdate", domain=DOMAIN, state=(0,))
def copy_var_update(call: Call, variable: Any, updater: Any) -> Any:
    """The updater, which becomes the next value of the variable. It has no gradient."""
    if variable.shape != updater.shape:
        raise ValueError(f"the variable has shape {list(variable.shape)}, and its updater {list(updater.shape)}")
    value = without_gradient(updater)
    call.set_state(0, value)
    return value


@op("TensorRemap", domain=DOMAIN)
def tensor_remap(call: Call, x: Any, reference: Any = None, *, remap_type: int = 0) -> Any:
    """x. The original lays it out anew over tiles, which does not change its values."""
    return x
