"""Batch normalisation as PopART has it: a node that names more outputs than the first is in training, whatever the session does."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import op_text, shape_text
from tilestep.popart.ops.gradients import refusing_gradient

_LEAST_RANK = 3
_MEAN, _VARIANCE = 3, 4  # positions of the inputs that are the running statistics
_NAMES = ("scale", "B", "mean", "var")


def batch_norm(call: Call, inputs: tuple[Any, ...], *, epsilon: float, momentum: float, spatial: bool, unbiased: bool) -> Any:
    """The norm; in training also the next running mean and variance, and the batch's.

    Args:
        inputs: x [N, C, D1, ...], then scale, bias, running mean and variance, each [C], or [C, D1, ...] if not `spatial`.
        unbiased: whether the batch's variance divides by one less than its elements, in all but the norm itself.
    """
    _check(call, inputs, spatial)
    x, scale, bias, mean, variance = map(jnp.asarray, inputs)
    along = (1, -1, *(1,) * (x.ndim - 2)) if spatial else (1, *x.shape[1:])
    if not any(map(call.wants, range(1, 5))):
        return refusing_gradient(
            _normed(x, scale, bias, mean, variance, epsilon, along),
            f'BatchNorm Op "{op_text(call.node)}" has {len(call.node.outputs)} output(s) which means it is in inference mode, but its '
            "gradient Op is being created. To use the BatchNorm Op in inference mode during training, it has to be detached first.",
        )
    axes = (0, *range(2, x.ndim)) if spatial else (0,)
    count = math.prod(x.shape[axis] for axis in axes)
    if not x.size:
        nothing = jnp.full((1,), jnp.nan)
        return jnp.zeros_like(x), nothing.astype(mean.dtype), nothing.astype(variance.dtype), mean, variance
    batch = wide(x)
    batch_mean = batch.mean(axes)
    batch_variance = jnp.square(batch - batch.mean(axes, keepdims=True)).mean(axes)
    y = _normed(x, scale, bias, batch_mean, batch_variance, epsilon, along)
    kept = batch_variance * (count / max(count - 1, 1)) if unbiased else batch_variance
    next_mean = (wide(mean) * momentum + batch_mean * (1 - momentum)).astype(mean.dtype)
    next_variance = (wide(variance) * momentum + kept * (1 - momentum)).astype(variance.dtype)
    if not call.run.inside:
        call.set_state(_MEAN, next_mean)
        call.set_state(_VARIANCE, next_variance)
    return y, next_mean, next_variance, batch_mean.astype(mean.dtype), kept.astype(variance.dtype)


def _normed(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float, along: tuple[int, ...]) -> Any:
    inverse = 1 / jnp.sqrt(wide(variance) + epsilon)
    centred = (wide(x) - wide(mean).reshape(along)) * inverse.reshape(along)
    return (centred * wide(scale).reshape(along) + wide(bias).reshape(along)).astype(x.dtype)


def _check(call: Call, inputs: tuple[Any, ...], spatial: bool) -> None:
    x = inputs[0]
    if x.ndim < _LEAST_RANK:
        raise popart_exception(f"batch norm requires X to have a rank >= 3.  x has rank {x.ndim}")
    wanted, what = ((x.shape[1],), "dimension 1") if spatial else (x.shape[1:], "dimensions [1..]")
    for name, value in zip(_NAMES, inputs[1:], strict=True):
        if value.shape != wanted:
            raise popart_exception(
                f"expected shape of batch norm input tensor {name} ({shape_text(value.shape)}) to be {shape_text(wanted)} to match {what} "
                f"of X ({shape_text(x.shape)})"
            )
