"""Gradients that end: operators whose result has none with respect to an input.

PopART's operators name the inputs that have a gradient. Through all others no gradient goes, whatever the derivative would be.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpreter.values import is_traced
from tilestep.popart.exceptions import popart_exception


def without_gradient(x: Any) -> Any:
    """`x`, through which no gradient goes."""
    return lax.stop_gradient(x) if is_traced(x) and jnp.issubdtype(x.dtype, jnp.inexact) else x


@jax.custom_jvp
def with_zero_gradient(x: Any, y: Any) -> Any:
    """`y`, which was computed of `x`, with a gradient of zeros with respect to `x`. A session tells such zeros from no gradient at all."""
    return y


@with_zero_gradient.defjvp
def _zero_slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return primals[1], tangents[0] * 0


def rounded(x: Any, y: Any) -> Any:
    """The same for known values as well."""
    return with_zero_gradient(x, lax.stop_gradient(y)) if is_traced(x) else y


@jax.custom_jvp
def magnitude(x: Any) -> Any:
    """|x|, whose gradient at 0 is 0."""
    return jnp.abs(x)


@magnitude.defjvp
def _magnitude_slope(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    return jnp.abs(primals[0]), tangents[0] * jnp.sign(primals[0])


@jax.custom_vjp
def extremes(extreme: Any, *values: Any) -> Any:
    """`extreme`, which is among the elements of each array that lie over each other. All that equal it get its whole gradient."""
    return extreme


def _extremes_forward(extreme: Any, *values: Any) -> tuple[Any, tuple[Any, Any]]:
    return extreme, (extreme, values)


def _extremes_backward(kept: tuple[Any, Any], cotangent: Any) -> tuple[Any, ...]:
    extreme, values = kept
    nothing = jnp.zeros((), cotangent.dtype)
    return jnp.zeros_like(extreme), *(jnp.where(value == extreme, cotangent, nothing) for value in values)


extremes.defvjp(_extremes_forward, _extremes_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def refusing_gradient(x: Any, message: str) -> Any:
    """`x`; whoever differentiates through it gets a popart_exception with that message."""
    return x


def _refusing_forward(x: Any, message: str) -> tuple[Any, None]:
    return x, None


def _refusing_backward(message: str, kept: None, cotangent: Any) -> Any:
    raise popart_exception(message)


refusing_gradient.defvjp(_refusing_forward, _refusing_backward)
