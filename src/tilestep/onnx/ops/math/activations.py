"""Activation functions. Their gradients are finite where the functions are: what overflows in the branch that isn't taken is kept out."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import module_of
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.ops.math.elementwise import clip


@op("Relu")
def relu(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
    """max(0, x), whose gradient at 0 is 0."""
    return jax.nn.relu(x)


@op("LeakyRelu")
def leaky_relu(call: Call, x: Any, *, alpha: float, consumed_inputs: Any = None) -> Any:
    """x, and alpha * x below 0."""
    return jax.nn.leaky_relu(x, alpha)


@op("PRelu", since=1)
def prelu_1(call: Call, x: Any, slope: Any, *, consumed_inputs: Any = None) -> Any:
    """x, and slope * x below 0: the slopes belong to the channels, which are axis 1, or there is one for all."""
    if slope.size == 1:
        return _prelu(x, slope.reshape(()))
    if x.ndim < 2 or slope.shape != (x.shape[1],):
        raise ValueError(f"slopes of {list(slope.shape)} are neither one nor one for each channel of {list(x.shape)}")
    return _prelu(x, slope.reshape((-1, *(1,) * (x.ndim - 2))))


@op("PRelu", since=7)
def prelu(call: Call, x: Any, slope: Any) -> Any:
    """x, and slope * x below 0. The slopes broadcast to the shape of x."""
    if np.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise ValueError(f"slopes of {list(slope.shape)} don't broadcast to {list(x.shape)}")
    return _prelu(x, slope)


def _prelu(x: Any, slope: Any) -> Any:
    return module_of(x, slope).where(x < 0, x * slope, x)


@op("Elu")
def elu(call: Call, x: Any, *, alpha: float, consumed_inputs: Any = None) -> Any:
    """x, and alpha * (e^x - 1) below 0."""
    return jnp.where(x < 0, alpha * _expm1_below_0(x), x)


@op("Celu")
def celu(call: Call, x: Any, *, alpha: float) -> Any:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1))."""
    if alpha == 0:
        raise ValueError("Celu divides by alpha, which is 0")
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, jnp.zeros((), x.dtype), x) / alpha))


@op("Selu", since=1)
def selu(call: Call, x: Any, *, alpha: float, gamma: float, consumed_inputs: Any = None) -> Any:
    """gamma * x, and gamma * alpha * (e^x - 1) below 0."""
    return gamma * jnp.where(x < 0, alpha * _expm1_below_0(x), x)


def _expm1_below_0(x: Any) -> Any:
    return jnp.expm1(jnp.where(x < 0, x, jnp.zeros((), x.dtype)))


@op("ThresholdedRelu")
def thresholded_relu(call: Call, x: Any, *, alpha: float) -> Any:
    """x above alpha, 0 elsewhere."""
    return jnp.where(x > alpha, x, jnp.zeros((), x.dtype))


@op("HardSigmoid")
def hard_sigmoid(call: Call, x: Any, *, alpha: float, beta: float, consumed_inputs: Any = None) -> Any:
    """alpha * x + beta within [0, 1]."""
    return _hard_sigmoid(x, alpha, beta)


@op("HardSwish")
def hard_swish(call: Call, x: Any) -> Any:
    """x times its hard sigmoid, which is x / 6 + 1 / 2 within [0, 1]."""
    return x * _hard_sigmoid(x, 1 / 6, 0.5)


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return clip(alpha * jnp.asarray(x) + beta, np.zeros((), x.dtype), np.ones((), x.dtype))


@op("Sigmoid")
def sigmoid(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
    """1 / (1 + e^-x)."""
    return jax.nn.sigmoid(x)


@op("Swish")
def swish(call: Call, x: Any, *, alpha: float) -> Any:
    """x times the sigmoid of alpha * x."""
    return jax.nn.silu(x) if alpha == 1 else x * jax.nn.sigmoid(alpha * x)


def _plain(name: str, function: Callable[[Any], Any], meaning: str) -> None:
    @op(name)
    def handler(call: Call, x: Any) -> Any:
        return function(x)

    handler.__doc__ = meaning


_plain("Softplus", jax.nn.softplus, "ln(1 + e^x).")
_plain("Softsign", jax.nn.soft_sign, "x / (1 + |x|).")
_plain("Mish", jax.nn.mish, "x * tanh(ln(1 + e^x)).")


@op("Gelu")
def gelu(call: Call, x: Any, *, approximate: str) -> Any:
    """x times the normal distribution's function of x, or its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate '{approximate}' is neither none nor tanh")
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@op("Shrink")
def shrink(call: Call, x: Any, *, lambd: float, bias: float) -> Any:
    """x + bias below -lambd, x - bias above lambd, 0 between. Integers are truncated towards zero."""
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.where(x < -lambd, x + bias, jnp.where(x > lambd, x - bias, jnp.zeros((), x.dtype)))
    ends = jnp.iinfo(x.dtype)
    below, above = x < max(math.ceil(-lambd), ends.min), x > min(math.floor(lambd), ends.max)
    return jnp.where(below, _moved(x, bias), jnp.where(above, _moved(x, -bias), jnp.zeros((), x.dtype)))


def _moved(x: Any, by: float) -> Any:
    """Integers plus `by`, truncated towards zero."""
    whole = x + np.asarray(math.floor(by)).astype(x.dtype)
    return whole + (whole < 0).astype(x.dtype) if by % 1 else whole


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
