"""Norms, a rectifier and swish, each with its backward pass: what they keep for it is said here, not left to differentiation.

A norm keeps its input, and of each channel the mean and the deviation's inverse. The backward pass computes the normed input again, and
from it two sums: the gradients of scale and offset, which the input's gradient needs, too. Barriers say that nothing of a backward pass is
computed before its gradient is there: each is one call of a library.
Source: graphcore/poplibs@7eac0f26 popnn/BatchNorm.cpp, popnn/NormsInternal.cpp.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from tilestep.train import cross_replica_mean

_EPSILON = 1e-5
_FIELD = (1, 2)  # axes of [batch, rows, columns, channels]


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


def _batch_normed(x: jax.Array, scale: jax.Array, offset: jax.Array, replicas: int, stable: bool) -> tuple[jax.Array, Any]:
    axes = (0, *_FIELD)
    if stable:
        mean = _over(x.mean(axes, dtype=jnp.float32), replicas)
        variance = _over(jnp.square(x - mean.astype(x.dtype)).mean(axes, dtype=jnp.float32), replicas)
    else:
        mean, squares = _over(jnp.stack([x.mean(axes, dtype=jnp.float32), jnp.square(x).mean(axes, dtype=jnp.float32)]), replicas)
        variance = squares - jnp.square(mean)
    mean, inverse = mean.astype(x.dtype), jax.lax.rsqrt(variance + _EPSILON).astype(x.dtype)
    factor = scale * inverse
    return x * factor + (offset - mean * factor), (x, mean, inverse, scale)


def _batch_norm_backward(replicas: int, stable: bool, kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    del stable
    (x, mean, inverse, scale), gradient = jax.lax.optimization_barrier((kept, gradient))
    count = x.size // x.shape[-1]
    normed = (x - mean) * inverse
    of_offset = gradient.sum((0, *_FIELD), dtype=jnp.float32)
    of_scale = (gradient * normed).sum((0, *_FIELD), dtype=jnp.float32)
    means = (_over(jnp.stack([of_offset, of_scale]), replicas) / count).astype(x.dtype)
    of_x = (gradient - means[0] - normed * means[1]) * (scale * inverse)
    return of_x, of_scale.astype(scale.dtype), of_offset.astype(scale.dtype)


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


def _group_normed(x: jax.Array, scale: jax.Array, offset: jax.Array, groups: int) -> tuple[jax.Array, Any]:
    mean = _shared(x.mean(_FIELD, dtype=jnp.float32), groups).astype(x.dtype)
    variance = _shared(jnp.square(x - mean[:, None, None]).mean(_FIELD, dtype=jnp.float32), groups)
    inverse = jax.lax.rsqrt(variance + _EPSILON).astype(x.dtype)
    factor = scale * inverse
    return x * factor[:, None, None] + (offset - mean * factor)[:, None, None], (x, mean, inverse, scale)


def _group_norm_backward(groups: int, kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    (x, mean, inverse, scale), gradient = jax.lax.optimization_barrier((kept, gradient))
    field = x.shape[1] * x.shape[2]
    normed = (x - mean[:, None, None]) * inverse[:, None, None]
    of_offset = gradient.sum(_FIELD, dtype=jnp.float32)
    of_scale = (gradient * normed).sum(_FIELD, dtype=jnp.float32)
    plain, along = (_shared(total * (scale / field), groups).astype(x.dtype)[:, None, None] for total in (of_offset, of_scale))
    of_x = (gradient * scale - plain - normed * along) * inverse[:, None, None]
    return of_x, of_scale.sum(0).astype(scale.dtype), of_offset.sum(0).astype(scale.dtype)


group_norm.defvjp(_group_normed, _group_norm_backward)


@jax.custom_vjp
def rectified(x: jax.Array) -> jax.Array:
    """max(x, 0), which keeps its result alone: the next layer keeps that, too."""
    return jax.nn.relu(x)


def _rectified(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = jax.nn.relu(x)
    return y, y


def _rectified_backward(y: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    y, gradient = jax.lax.optimization_barrier((y, gradient))
    return (jnp.where(y > 0, gradient, jnp.zeros((), gradient.dtype)),)


rectified.defvjp(_rectified, _rectified_backward)


@jax.custom_vjp
def swish(x: jax.Array) -> jax.Array:
    """x times its sigmoid, which keeps x alone."""
    return jax.nn.silu(x)


def _swish_backward(x: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    x, gradient = jax.lax.optimization_barrier((x, gradient))
    share = jax.nn.sigmoid(x)
    return (gradient * (share + x * share * (1 - share)),)


swish.defvjp(lambda x: (jax.nn.silu(x), x), _swish_backward)


def _over(values: jax.Array, replicas: int) -> jax.Array:
    return cross_replica_mean(values, group_size=replicas) if replicas > 1 else values


def _shared(values: jax.Array, groups: int) -> jax.Array:
    """[batch, channels]: each channel has the mean of its group's."""
    batch, channels = values.shape
    return jnp.tile(values.reshape(batch, channels // groups, groups).mean(1), (1, channels // groups))
