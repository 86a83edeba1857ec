"""Normalisation: within an item over layers, instances, groups, neighbours and axes, and over batches."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from onnx import helper

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import jax_dtype, module_of
from tilestep.onnx.ops.interpolation import wide


def power(x: Any, p: float) -> Any:
    """|x| to the power of p."""
    if p == 2:
        return x * x
    return jax.lax.integer_pow(jnp.abs(x), int(p)) if p == int(p) else jnp.abs(x) ** p


def root(total: Any, p: float) -> Any:
    """The p-th root of what isn't negative; its gradient is 0 at 0."""
    if p == 1:
        return total
    zero = total == 0
    positive = jnp.where(zero, 1, total)
    return jnp.where(zero, 0, jnp.sqrt(positive) if p == 2 else positive ** (1 / p))


def checked_order(p: float, least: float = 1) -> float:
    """Raises: ValueError if p is below `least`."""
    if not p >= least:
        raise ValueError(f"p is {p}, and must be at least {least}")
    return p


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


_MEAN_VARIANCE_EPSILON = 1e-9


@op("InstanceNormalization")
def instance_norm(call: Call, x: Any, scale: Any, bias: Any, *, consumed_inputs: Any = None, epsilon: float = 1e-5) -> Any:
    """Each channel of each item of [N, C, D1, ...] with mean 0 and variance 1, then times the scale [C] plus the bias [C]."""
    y, _, _ = standardised(x, tuple(range(2, x.ndim)), epsilon)
    return y * _of_channels(scale, x.ndim) + _of_channels(bias, x.ndim)


@op("LayerNormalization", since=17)
def layer_norm(
    call: Call, x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Any, Any, Any]:
    """Mean 0 and variance 1 over `axis` and all behind it, then times the scale plus the bias; the means and 1 / deviations."""
    y, mean, inverse = standardised(x, axes_from(axis, x.ndim), epsilon)
    y = y * scale if bias is None else y * scale + bias
    stash = jax_dtype(helper.tensor_dtype_to_np_dtype(stash_type))
    return y, mean.astype(stash), inverse.astype(stash)


@op("RMSNormalization", since=23)
def rms_norm(call: Call, x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Mean square 1 over `axis` and all behind it, then times the scale, whose type the result has."""
    x, scale = jnp.asarray(x), jnp.asarray(scale)
    y, _ = by_mean_square(x, axes_from(axis, x.ndim), epsilon)
    return y.astype(scale.dtype) * scale


@op("GroupNormalization", since=18)
def group_norm_by_groups(call: Call, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5) -> Any:
    """Each group of channels of each item with mean 0 and variance 1, then times the scale [groups] plus the bias [groups]."""
    y, _, _ = standardised(_grouped(x, num_groups), (2,), epsilon)
    return (y * _of_channels(scale, 3) + _of_channels(bias, 3)).reshape(x.shape)


@op("GroupNormalization", since=21)
def group_norm(call: Call, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Each group of channels of each item with mean 0 and variance 1, then times the scale [C] plus the bias [C]."""
    y, _, _ = standardised(_grouped(x, num_groups), (2,), epsilon)
    return y.reshape(x.shape) * _of_channels(scale, x.ndim) + _of_channels(bias, x.ndim)


@op("MeanVarianceNormalization", since=9)
def mean_variance_norm(call: Call, x: Any, *, axes: Sequence[int] = (0, 2, 3)) -> Any:
    """Mean 0 and variance 1 over `axes`. The variance is that of x - mean, because ONNX's body loses digits."""
    whole = wide(jnp.asarray(x))
    centred = whole - whole.mean(tuple(axes), keepdims=True)
    deviation = root(jnp.square(centred).mean(tuple(axes), keepdims=True), 2)
    return (centred / (deviation + _MEAN_VARIANCE_EPSILON)).astype(x.dtype)


@op("LpNormalization")
def lp_norm(call: Call, x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """x divided by its norm of order p along `axis`; 0 where the norm is."""
    if p not in (1, 2):
        raise ValueError(f"p is {p}, and may be 1 or 2")
    whole = wide(jnp.asarray(x))
    norm = root(power(whole, p).sum(axis, keepdims=True), p)
    return (whole / jnp.where(norm == 0, 1, norm)).astype(x.dtype)


@op("LRN")
def local_response_norm(call: Call, x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """x / (bias + alpha / size * sum of squares) ** beta, where the sum goes over `size` channels around each, as far as there are any."""
    if size < 1:
        raise ValueError(f"size is {size}, and must be at least 1")
    whole = wide(jnp.asarray(x))
    window = (1, size, *(1,) * (x.ndim - 2))
    padding = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    squares = jax.lax.reduce_window(jnp.square(whole), np.zeros((), whole.dtype), jax.lax.add, window, (1,) * x.ndim, padding)
    return (whole / (bias + alpha / size * squares) ** beta).astype(x.dtype)


def standardised(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """x with mean 0 and variance 1 over `axes`; the mean and 1 / deviation, in the type that they were computed in."""
    x = jnp.asarray(x)
    whole = wide(x)
    mean = whole.mean(axes, keepdims=True)
    centred = whole - mean
    inverse = jax.lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + epsilon)
    return (centred * inverse).astype(x.dtype), mean, inverse


def by_mean_square(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any]:
    """x with mean square 1 over `axes`; and 1 / root mean square, in the type that it was computed in."""
    whole = wide(x)
    inverse = jax.lax.rsqrt(jnp.square(whole).mean(axes, keepdims=True) + epsilon)
    return (whole * inverse).astype(x.dtype), inverse


def axes_from(axis: int, ndim: int) -> tuple[int, ...]:
    """`axis` and all behind it."""
    return tuple(range(normalize_axis_index(axis, ndim), ndim))


def _of_channels(values: Any, ndim: int) -> Any:
    return values.reshape(1, -1, *(1,) * (ndim - 2))


def _grouped(x: Any, groups: int) -> Any:
    """x [N, C, D1, ...] as [N, groups, elements of a group]."""
    if groups < 1 or x.shape[1] % groups:
        raise ValueError(f"num_groups is {groups}, and must divide the {x.shape[1]} channels")
    return x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
