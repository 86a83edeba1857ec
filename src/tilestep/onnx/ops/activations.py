"""Activation functions. Their gradients are finite where the functions are: what overflows in the branch that isn't taken is kept out."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.elementwise import clip
from tilestep.onnx.registry import op
from tilestep.onnx.values import module_of


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


@op("Softplus")
def softplus(call: Call, x: Any) -> Any:
    """ln(1 + e^x)."""
    return jax.nn.softplus(x)


@op("Softsign")
def softsign(call: Call, x: Any) -> Any:
    """x / (1 + |x|)."""
    return jax.nn.soft_sign(x)


@op("Mish")
def mish(call: Call, x: Any) -> Any:
    """x * tanh(ln(1 + e^x))."""
    return jax.nn.mish(x)


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
