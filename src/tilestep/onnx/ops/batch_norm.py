"""Batch normalisation, whose statistics are a model's state."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.registry import op
from tilestep.onnx.values import jax_dtype, module_of

_MEAN, _VARIANCE = 3, 4  # positions of the inputs that are the running statistics


@op("BatchNormalization", state=(_MEAN, _VARIANCE))
def batch_norm_by_outputs(
    call: Call,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    consumed_inputs: Any = None,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Any:
    """Batch norm of [N, C, D1, ...], with the batch's statistics if the node names more outputs than the first.

    Args:
        is_test: of versions 1 to 6: takes the running statistics in any case, and gives them as they are.
        spatial: of versions 1 to 8: whether statistics are of a channel, not of each element [C, D1, ...].
    """
    named = not is_test and any(map(call.wants, range(1, 5)))
    if not (named or call.run.training):
        return _inferred(x, scale, bias, mean, variance, epsilon, bool(spatial)), mean, variance, mean, variance
    return _trained(call, x, scale, bias, mean, variance, epsilon, momentum, bool(spatial))


@op("BatchNormalization", since=14, state=(_MEAN, _VARIANCE))
def batch_norm(
    call: Call,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """Batch norm of [N, C, D1, ...], with the batch's statistics in training mode."""
    if not (training_mode or call.run.training):
        return _inferred(x, scale, bias, mean, variance, epsilon, True)
    return _trained(call, x, scale, bias, mean, variance, epsilon, momentum, True)[:3]


def _inferred(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float, spatial: bool) -> Any:
    """One product and one sum; what they take is computed of the statistics first, and is known if these are."""
    x, xp = jnp.asarray(x), module_of(scale, bias, mean, variance)
    factor = wide(scale) / xp.sqrt(wide(variance) + epsilon)
    shift = wide(bias) - wide(mean) * factor
    dtype, shape = jax_dtype(jnp.promote_types(x.dtype, scale.dtype)), _along_channels(x, scale, spatial)
    return (x * factor.astype(dtype).reshape(shape) + shift.astype(dtype).reshape(shape)).astype(x.dtype)


def _trained(
    call: Call, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float, momentum: float, spatial: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """The norm, the next running statistics, and the batch's."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1) if spatial else (0,)
    batch = wide(jnp.asarray(x))
    batch_mean = batch.mean(axes)
    batch_variance = jnp.square(batch - batch.mean(axes, keepdims=True)).mean(axes)
    batch_mean, batch_variance = batch_mean.reshape(mean.shape), batch_variance.reshape(variance.shape)
    y = _inferred(x, scale, bias, batch_mean, batch_variance, epsilon, spatial)
    mean, variance = jnp.asarray(mean), jnp.asarray(variance)
    next_mean = (wide(mean) * momentum + batch_mean * (1 - momentum)).astype(mean.dtype)
    next_variance = (wide(variance) * momentum + batch_variance * (1 - momentum)).astype(variance.dtype)
    if call.run.training:
        call.set_state(_MEAN, next_mean)
        call.set_state(_VARIANCE, next_variance)
    return y, next_mean, next_variance, batch_mean.astype(mean.dtype), batch_variance.astype(variance.dtype)


def _along_channels(x: Any, scale: Any, spatial: bool) -> tuple[int, ...]:
    """The shape with which statistics are broadcast over x. An x of one axis has one channel."""
    shape = (1, *x.shape[1:]) if not spatial else (1, scale.size, *(1,) * (x.ndim - 2)) if x.ndim > 1 else (1,)
    if not spatial and scale.size != x.size // max(x.shape[0], 1):
        raise ValueError(f"scale has {scale.size} elements; with spatial = 0 it has those of {list(x.shape[1:])}")
    return shape
