"""Softmax, its logarithm, and hardmax. Before version 13 they take all axes from `axis` on as one."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from numpy.lib.array_utils import normalize_axis_index

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op


@op("Softmax")
def softmax_from_axis(call: Call, x: Any, *, axis: int = 1) -> Any:
    """Exponentials divided by their sum over `axis` and all axes behind it."""
    return jax.nn.softmax(x, axis=_from(axis, x.ndim))


@op("Softmax", since=13)
def softmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """Exponentials divided by their sum over `axis`."""
    return jax.nn.softmax(x, axis=normalize_axis_index(axis, x.ndim))


@op("LogSoftmax")
def log_softmax_from_axis(call: Call, x: Any, *, axis: int = 1) -> Any:
    """The logarithm of softmax over `axis` and all axes behind it."""
    return jax.nn.log_softmax(x, axis=_from(axis, x.ndim))


@op("LogSoftmax", since=13)
def log_softmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """The logarithm of softmax over `axis`."""
    return jax.nn.log_softmax(x, axis=normalize_axis_index(axis, x.ndim))


@op("Hardmax")
def hardmax_from_axis(call: Call, x: Any, *, axis: int = 1) -> Any:
    """1 at the first maximum over `axis` and all axes behind it, taken as one in row-major order, and 0 elsewhere."""
    first = normalize_axis_index(axis, x.ndim)
    rows = x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))
    return _one_at_maximum(rows, 1).reshape(x.shape)


@op("Hardmax", since=13)
def hardmax(call: Call, x: Any, *, axis: int = -1) -> Any:
    """1 at the first maximum over `axis`, and 0 elsewhere."""
    return _one_at_maximum(x, normalize_axis_index(axis, x.ndim))


def _from(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(range(normalize_axis_index(axis, ndim), ndim))


def _one_at_maximum(x: Any, axis: int) -> Any:
    if not x.size:
        return x
    return jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], dtype=x.dtype, axis=axis)
