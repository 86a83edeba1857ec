"""Layers that networks share, and what is one call of a library."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from tilestep.hints import CALL

Params = dict[str, Any]
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

LABELS = ("NHWC", "HWIO", "NHWC")
HALVED = (2, 2)


def conv(kernel: jax.Array, x: jax.Array, stride: int = 1, padding: Any = "SAME", groups: int = 1) -> jax.Array:
    """Args: kernel: [rows, columns, inputs / groups, outputs]; x: [batch, rows, columns, inputs]."""
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=LABELS, feature_group_count=groups)


def max_pool(x: jax.Array, size: int, padding: str) -> jax.Array:
    """The largest of each window of size x size, with a stride of 2, of [batch, rows, columns, channels]."""
    return jax.lax.reduce_window(x, -float("inf"), jax.lax.max, (1, size, size, 1), (1, 2, 2, 1), padding)


def array(dtype: Any, *dims: int) -> jax.ShapeDtypeStruct:
    """Shape of a parameter."""
    return jax.ShapeDtypeStruct(dims, dtype)


def shapes_in(dtype: Any) -> tuple[Callable[..., jax.ShapeDtypeStruct], Callable[[int, int], Params]]:
    """What makes the shape of a parameter from its dimensions, and what makes those of a dense layer from (inputs, outputs)."""

    def product(inputs: int, outputs: int) -> Params:
        return {"kernel": array(dtype, inputs, outputs), "bias": array(dtype, outputs)}

    return functools.partial(array, dtype), product


def library(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function as one codelet of a library where other operations have one each."""
    return _marked(function, function.__name__)


def step_by_step(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function as a call of a library that launches a codelet for each operation."""
    return _marked(function, "")


def _marked(function: Callable[_Arguments, _Result], mark: str) -> Callable[_Arguments, _Result]:
    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with set_xla_metadata(**{CALL: mark}):
            return function(*args, **kwargs)

    return call


# poplibs@7eac0f26 lib/popnn/SoftMax.cpp: a reduction, subInPlace, expInPlace, a reduction, a product with the inverse.
softmax, log_softmax, silu = step_by_step(jax.nn.softmax), step_by_step(jax.nn.log_softmax), library(jax.nn.silu)


@library
def gelu(x: jax.Array, approximate: bool = True) -> jax.Array:
    """As `jax.nn.gelu`, whose cube XLA writes without the mark of its call."""
    if not approximate:
        return jax.nn.gelu(x, approximate=False)
    inner = jnp.asarray((2 / jnp.pi) ** 0.5, x.dtype) * (x + jnp.asarray(0.044715, x.dtype) * (x * x * x))
    return x * (jnp.asarray(0.5, x.dtype) * (1 + jnp.tanh(inner)))
