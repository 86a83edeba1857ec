"""Norms, a rectifier and swish, each with its backward pass: what they keep for it is said here, not left to differentiation.

A norm is written as poplibs makes it, one codelet after the other. The forward pass makes both statistics of the input together, and of
them the deviation's inverse. A norm keeps its input, and these. The backward pass normalises the input again. It makes two sums for the
input's gradient, and two for those of scale and offset. Barriers say that nothing of a backward pass is computed before its gradient is
there.
Source: graphcore/poplibs@7eac0f26 poplin/Norms.cpp, popnn/BatchNorm.cpp, popnn/GroupNorm.cpp; the backward passes of TensorFlow's backend
(plugin/poplar/driver/ops/custom_ops/popnn/norm.cc) and of PopART (willow/src/popx/op/batchnormx.cpp) call them in this order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.models.layers import library, silu, step_by_step
from tilestep.train import cross_replica_mean

_EPSILON = 1e-5
_OF_BATCH = (0, 1, 2)  # axes of [batch, rows, columns, channels]
_OF_GROUP = (1, 2, 3)  # axes of [batch, rows, columns, channels of a group, groups]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def batch_norm(x: jax.Array, scale: jax.Array, offset: jax.Array, replicas: int = 1, stable: bool = False) -> jax.Array:
    """Norm of each channel over a batch.

    Args:
        x: [batch, rows, columns, channels].
        scale: [channels].
        offset: [channels].
        replicas: neighbouring replicas whose batches are one batch for the statistics.
        stable: whether the variance is that of x - mean; else it is the mean of squares without the square of the mean.
    """
    return _batch_normed(x, scale, offset, replicas, stable)[0]


@step_by_step
def _batch_normed(x: jax.Array, scale: jax.Array, offset: jax.Array, replicas: int, stable: bool) -> tuple[jax.Array, Any]:
    mean, inverse = _statistics(x, _OF_BATCH, replicas, stable)
    factor, added = _combined(scale, offset, mean, inverse)
    return x * factor + added, (x, mean, inverse, scale)


@library
def _combined(scale: jax.Array, offset: jax.Array, mean: jax.Array, inverse: jax.Array) -> tuple[jax.Array, jax.Array]:
    factor = scale * inverse
    return factor, offset - mean * factor


@step_by_step
def _batch_norm_backward(replicas: int, stable: bool, kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    del stable
    return _backward(kept, gradient, _OF_BATCH, _OF_BATCH, replicas)


batch_norm.defvjp(_batch_normed, _batch_norm_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def group_norm(x: jax.Array, scale: jax.Array, offset: jax.Array, groups: int) -> jax.Array:
    """Norm of groups of channels over each item: group g has the channels c with c % groups == g.

    Args:
        x: [batch, rows, columns, channels].
        scale: [channels].
        offset: [channels].
        groups: divides channels.
    """
    return _group_normed(x, scale, offset, groups)[0]


@step_by_step
def _group_normed(x: jax.Array, scale: jax.Array, offset: jax.Array, groups: int) -> tuple[jax.Array, Any]:
    y, kept = _normed(_grouped(x, groups), _grouped(scale, groups), _grouped(offset, groups), _OF_GROUP)
    return y.reshape(x.shape), kept


@step_by_step
def _group_norm_backward(groups: int, kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    of_x, of_scale, of_offset = _backward(kept, _grouped(gradient, groups), _OF_GROUP, _OF_BATCH)
    return of_x.reshape(gradient.shape), of_scale.reshape(-1), of_offset.reshape(-1)


group_norm.defvjp(_group_normed, _group_norm_backward)


@jax.custom_vjp
def layer_norm(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    """Norm over the last axis. Args: x: [..., width]; scale, offset: [width]."""
    return _layer_normed(x, scale, offset)[0]


@step_by_step
def _layer_normed(x: jax.Array, scale: jax.Array, offset: jax.Array) -> tuple[jax.Array, Any]:
    return _normed(x, scale, offset, (-1,))


@step_by_step
def _layer_norm_backward(kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return _backward(kept, gradient, (-1,), tuple(range(gradient.ndim - 1)))


layer_norm.defvjp(_layer_normed, _layer_norm_backward)


def _normed(x: jax.Array, scale: jax.Array, offset: jax.Array, axes: Sequence[int]) -> tuple[jax.Array, Any]:
    mean, inverse = _statistics(x, axes)
    return (x - mean) * inverse * scale + offset, (x, mean, inverse, scale)


def _statistics(x: jax.Array, axes: Sequence[int], replicas: int = 1, stable: bool = False) -> tuple[jax.Array, jax.Array]:
    """The mean, and the inverse of the deviation, of the elements along the axes."""
    if stable:
        mean = _over(x.mean(axes, dtype=jnp.float32, keepdims=True), replicas)
        power = _over(jnp.square(x - mean.astype(x.dtype)).mean(axes, dtype=jnp.float32, keepdims=True), replicas)
    else:
        mean = x.mean(axes, dtype=jnp.float32, keepdims=True)
        power = jnp.square(x).mean(axes, dtype=jnp.float32, keepdims=True)
        if replicas > 1:
            mean, power = _over(jnp.stack([mean, power]), replicas)
    mean = mean.astype(x.dtype)
    return mean, _inverse(mean, power, stable)


@library
def _inverse(mean: jax.Array, power: jax.Array, stable: bool) -> jax.Array:
    wide = mean.astype(power.dtype)
    return jax.lax.rsqrt((power if stable else power - wide * wide) + _EPSILON).astype(mean.dtype)


def _backward(
    kept: Any, gradient: jax.Array, axes: Sequence[int], of_parameters: Sequence[int], replicas: int = 1
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Gradients of the input, the scale and the offset. Args: axes: over which the norm is; of_parameters: that these do not have."""
    (x, mean, inverse, scale), gradient = jax.lax.optimization_barrier((kept, gradient))
    whitened = (x - mean) * inverse
    scaled = gradient * scale
    count = x.size // mean.size
    along = (whitened * scaled).sum(axes, dtype=jnp.float32, keepdims=True) / count
    plain = scaled.sum(axes, dtype=jnp.float32, keepdims=True) / count
    if replicas > 1:
        along, plain = _over(jnp.stack([along, plain]), replicas)
    of_x = (scaled - plain.astype(x.dtype) - whitened * along.astype(x.dtype)) * inverse
    of_scale = (whitened * gradient).sum(of_parameters, dtype=jnp.float32)
    of_offset = gradient.sum(of_parameters, dtype=jnp.float32)
    return of_x, of_scale.astype(scale.dtype), of_offset.astype(scale.dtype)


def _grouped(values: jax.Array, groups: int) -> jax.Array:
    """[..., channels of a group, groups]"""
    return values.reshape(*values.shape[:-1], -1, groups)


@jax.custom_vjp
def rectified(x: jax.Array) -> jax.Array:
    """max(x, 0), which keeps its result alone: the next layer keeps that, too."""
    return jax.nn.relu(x)


def _rectified(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = jax.nn.relu(x)
    return y, y


@library
def _rectified_backward(y: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    y, gradient = jax.lax.optimization_barrier((y, gradient))
    return (jnp.where(y > 0, gradient, jnp.zeros((), gradient.dtype)),)


rectified.defvjp(_rectified, _rectified_backward)


@jax.custom_vjp
def swish(x: jax.Array) -> jax.Array:
    """x times its sigmoid, which keeps x alone."""
    return silu(x)


@library
def _swish_backward(x: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    x, gradient = jax.lax.optimization_barrier((x, gradient))
    share = jax.nn.sigmoid(x)
    return (gradient * (share + x * share * (1 - share)),)


swish.defvjp(lambda x: (silu(x), x), _swish_backward)


def _over(values: jax.Array, replicas: int) -> jax.Array:
    return cross_replica_mean(values, group_size=replicas) if replicas > 1 else values
