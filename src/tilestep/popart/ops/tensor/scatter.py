"""Operators with an index for each element or slice: reductions into the places of indices, and reads in groups."""

import functools
import math
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_traced
from tilestep.onnx.ops.tensor.indexing import checked, taken
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.popart.ops.describing import DOMAIN, shape_text

_COMBINING: Final = {"sum": "add", "max": "max", "min": "min", "mul": "multiply", "none": "set"}


@op("ScatterReduce", domain=DOMAIN)
def scatter_reduce(
    call: Call,
    data: Any,
    indices: Any,
    initial: Any = None,
    *,
    axis_size: int,
    axis: int = -1,
    reduction: str = "sum",
    group_size: int = 1,
    enable_index_broadcast: int = 1,
) -> Any:
    """Elements of `data` combined at the places that `indices` give along `axis`, whose length becomes `axis_size`.

    Elements that nothing is combined into keep their initial value, or are 0. Indices outside of the axis write nothing.

    Args:
        initial: what is combined into; the result has its shape.
        group_size: if above 1, the first axis of all arrays is that of groups, which are reduced on their own.
        enable_index_broadcast: whether indices are for whole slices of `data`; if not, `data` is cut to their shape.

    Raises: popart_exception for an axis, a size or shapes that do not fit.
    """
    _check(data, axis, axis_size, group_size, enable_index_broadcast)
    kind = reduction.lower()
    if kind not in _COMBINING:
        raise popart_internal_exception("Unknown ScatterReduction")
    axis %= data.ndim
    data, indices = jnp.asarray(data), jnp.asarray(indices).astype(np.int32)
    shape = expanded(indices.shape, data.shape, axis, grouped=group_size > 1)
    indices = indices.reshape(shape)
    if (
        enable_index_broadcast
        and shape != data.shape
        and any(length > 1 for i, length in enumerate(shape) if i != axis and (i or group_size <= 1))
    ):
        raise popart_exception("Partial broadcasting of indices is not currently supported.")
    if enable_index_broadcast:
        indices = jnp.broadcast_to(indices, data.shape)
    else:
        data = data[tuple(slice(0, length) for length in shape)]
    if initial is not None:
        return _into(data, indices, jnp.asarray(initial), axis, kind)
    lengths = [axis_size if i == axis else length for i, length in enumerate(data.shape)]
    start = jnp.full(lengths, _neutral(kind, data.dtype), data.dtype)
    result: Any = _into(data, indices, start, axis, kind)
    if kind not in ("max", "min"):
        return result
    touched: Any = _into(jnp.ones(data.shape, np.int32), indices, jnp.zeros(lengths, np.int32), axis, "max")
    return jnp.where(touched > 0, result, jnp.zeros((), data.dtype))


def _check(data: Any, axis: int, axis_size: int, group_size: int, broadcast: int) -> None:
    if axis_size < 1:
        raise popart_exception(f"ScatterReduceOp axis_size = {axis_size} is not valid: must be > 0.")
    if group_size < 1:
        raise popart_exception(f"ScatterReduceOp group_size = {group_size} is not valid: must be > 0.")
    if broadcast not in (0, 1):
        raise popart_exception(f"ScatterReduceOp enable_index_broadcast = {broadcast} is not valid: must be either 0 or 1.")
    if not -data.ndim <= axis < data.ndim:
        raise popart_exception(f"ScatterReduceOp::setup axis = {axis} is outside the acceptable range [{-data.ndim}, {data.ndim - 1}]")


def expanded(indices: tuple[int, ...], data: tuple[int, ...], axis: int, *, grouped: bool) -> tuple[int, ...]:
    """The shape of indices with axes of length 1, so that it has as many as that of data. Raises: popart_exception if it cannot fit."""
    if len(indices) > len(data):
        raise popart_exception(f"Invalid rank for indices input. Indices rank {len(indices)} must be <= data input rank {len(data)}.")
    groups = int(grouped)
    shape = list(indices)
    if len(indices) - groups == 1:
        shape[groups:groups] = [1] * (axis - groups)
    shape += [1] * (len(data) - len(shape))
    if any(own > other for own, other in zip(shape, data, strict=False)) or len(shape) > len(data):
        raise popart_exception(
            f"Failed to expand 'indices' shape {shape_text(indices)} to match 'src' shape {shape_text(data)} using reduction axis = {axis}."
        )
    return tuple(shape)


def _neutral(kind: str, dtype: Any) -> Any:
    if kind == "mul":
        return 1
    if kind in ("sum", "none"):
        return 0
    if jnp.issubdtype(dtype, jnp.floating):
        return -math.inf if kind == "max" else math.inf
    limits = jnp.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _into(data: Any, indices: Any, initial: Any, axis: int, kind: str) -> Any:
    """`initial` with the elements of `data` combined into it. Gradients are the original's, which each of several equal extremes gets."""
    columns = _columns(indices, initial, axis)
    return getattr(initial.at[columns], _COMBINING[kind])(data.astype(initial.dtype), mode="drop", wrap_negative_indices=False)


def _columns(indices: Any, target: Any, axis: int) -> tuple[Any, ...]:
    grid: list[Any] = list(np.ogrid[tuple(slice(length) for length in indices.shape)])
    return tuple(indices if i == axis else places for i, places in enumerate(grid))


def _forward(data: Any, indices: Any, initial: Any, axis: int, kind: str) -> tuple[Any, Any]:
    result = _into(data, indices, initial, axis, kind)
    return result, (data, indices, initial, result)


def _backward(axis: int, kind: str, kept: tuple[Any, ...], cotangent: Any) -> tuple[Any, None, Any]:
    data, indices, initial, result = kept
    columns = _columns(indices, initial, axis)
    read = functools.partial(_read, columns=columns)
    slope = read(cotangent)
    if kind == "sum":
        return slope, None, cotangent
    if kind == "none":
        blank = cotangent.at[columns].set(jnp.zeros((), cotangent.dtype), mode="drop", wrap_negative_indices=False)
        return slope, None, blank
    if kind == "mul":
        return slope * read(result) / data, None, cotangent * result / initial
    is_extreme, was_extreme = (data == read(result)).astype(data.dtype), (result == initial).astype(initial.dtype)
    return slope * is_extreme, None, cotangent * was_extreme


def _read(values: Any, columns: tuple[Any, ...]) -> Any:
    return values.at[columns].get(mode="fill", fill_value=0, wrap_negative_indices=False)


_into.defvjp(_forward, _backward)


@op("GroupedGather", domain=DOMAIN)
def grouped_gather(call: Call, data: Any, indices: Any, *, axis: int = 0, group_size: int = 1) -> Any:
    """The slices of `data` at `indices` along an axis. With groups, the first axis of both is theirs, and each is read on its own."""
    if not -data.ndim <= axis < data.ndim:
        raise popart_exception(f"GatherOp::setup axis = {axis} is outside the acceptable range [{-data.ndim}, {data.ndim - 1}]")
    axis %= data.ndim
    if group_size > 1 and axis == 0:
        raise popart_exception(f"GatherOp::setup axis = {axis} indicates the dimension of the group")
    if not indices.size and is_traced(data):  # JAX knows no gradient of nothing that it reads by index, but one of a slice
        own = indices.shape[1:] if group_size > 1 else indices.shape
        return lax.slice_in_dim(data, 0, 0, axis=axis).reshape(*data.shape[:axis], *own, *data.shape[axis + 1 :])
    if group_size <= 1:
        return taken(data, checked(indices, data.shape[axis]), axis)
    places = checked(indices, data.shape[axis])
    return jax.vmap(lambda part, index: jnp.take(part, index, axis=axis - 1, mode="fill"))(jnp.asarray(data), jnp.asarray(places))
