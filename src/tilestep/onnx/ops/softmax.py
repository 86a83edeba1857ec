"""Softmax, its logarithm, hardmax (before version 13 of all axes from `axis` on as one), and losses of probabilities."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.registry import op


@op("NegativeLogLikelihoodLoss", since=12)
def nll_loss(call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean") -> Any:
    """Minus the log-probability x [N, C, D1, ...] of each target [N, D1, ...], times the weight [C] of its class.

    A mean divides by the weights. An item whose target is `ignore_index` has loss 0 and weight 0. Other targets outside of
    0 to C - 1 give no number.
    """
    return _loss(x, target, weight, ignore_index, reduction)


@op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    """The loss above of the log-softmax of scores [N, C, D1, ...], and that log-softmax."""
    logarithms = jax.nn.log_softmax(jnp.asarray(x), axis=1)
    return _loss(logarithms, target, weight, ignore_index, reduction), logarithms


def _loss(x: Any, target: Any, weight: Any, ignore_index: int | None, reduction: str) -> Any:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"reduction is {reduction!r}, and may be none, sum or mean")
    x, target, classes = jnp.asarray(x), jnp.asarray(target), x.shape[1]
    counts = None if ignore_index is None else target != ignore_index
    index = target if counts is None else jnp.where(counts, target, 0)
    index = jnp.where(index < 0, classes, index)  # an index below 0 would count from the end
    loss = -jnp.take_along_axis(x, index[:, None], axis=1, mode="fill", fill_value=np.nan)[:, 0]
    weights = None if weight is None else jnp.take(jnp.asarray(weight), index, mode="fill", fill_value=np.nan)
    if weights is not None:
        loss = loss * weights
    if counts is not None:
        loss = jnp.where(counts, loss, 0)
        weights = counts.astype(x.dtype) if weights is None else jnp.where(counts, weights, 0)
    if reduction == "none":
        return loss
    total = wide(loss).sum()
    if reduction == "mean":
        total = total / (loss.size if weights is None else wide(weights).sum())
    return total.astype(x.dtype)


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
