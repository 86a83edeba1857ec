"""Operators that choose elements by a condition, by their values or by their places.

Three of them have results whose length depends on values: NonZero, Compress and Unique. They are exact where the values are known,
and when a model runs eagerly. In a program they need a bound, and their results are filled up to it as their docstrings say. If there
are more than the bound, the program cannot raise: all of the result then is NaN, or the lowest integer, which no index is.
"""

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.convert import convert, fitting, operands
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import NeedsValueError, is_known, is_traced, jax_dtype, known, known_scalar, module_for, module_of
from tilestep.onnx.ops.tensor.indexing import taken
from tilestep.onnx.ops.tensor.shapes import normal_axis

_INDEX: Final = np.dtype(np.int64)


@op("Where")
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is true, y elsewhere. Shapes broadcast as in NumPy."""
    xp, condition, x, y = operands(condition, x, y)
    return xp.where(condition, x, y)


@op("Trilu")
def trilu(call: Call, x: Any, k: Any = None, *, upper: int) -> Any:
    """The elements on and above diagonal `k` of each matrix, or on and below it; zeros elsewhere."""
    rows, columns = x.shape[-2:]
    xp = module_of(x, k)
    if k is None or is_known(k):
        diagonal = 0 if k is None else min(max(int(k.reshape(())), -rows), columns)
    else:
        diagonal = jnp.clip(k.reshape(()), -rows, columns)
    above = xp.arange(columns) - xp.arange(rows)[:, None]
    x = xp.asarray(fitting(x, xp))
    return xp.where(above >= diagonal if upper else above <= diagonal, x, xp.zeros((), x.dtype))


@op("OneHot", since=9, needs=(1,))
def one_hot_9(call: Call, indices: Any, depth: Any, values: Any, *, axis: int) -> Any:
    """On a new axis of length `depth` values[1] at the index and values[0] elsewhere. Indices outside of it give values[0] only."""
    return _one_hot(indices, depth, values, axis, from_the_back=False)


@op("OneHot", since=11, needs=(1,))
def one_hot(call: Call, indices: Any, depth: Any, values: Any, *, axis: int) -> Any:
    """On a new axis of length `depth` values[1] at the index, which may count from the back, and values[0] elsewhere."""
    return _one_hot(indices, depth, values, axis, from_the_back=True)


def _one_hot(indices: Any, depth: Any, values: Any, axis: int, *, from_the_back: bool) -> Any:
    length = int(known_scalar(depth, "the depth"))
    indices = convert(indices, _INDEX)  # types of 8 bits can't count from the back
    axis = normal_axis(axis, indices.ndim + 1)
    shape = (*indices.shape[:axis], length, *indices.shape[axis:])
    xp = module_for(shape, values.dtype, indices, values)
    if from_the_back:
        indices = xp.where(indices < 0, indices + length, indices)
    here = xp.arange(length).reshape((length, *(1,) * (indices.ndim - axis)))
    off, on = fitting(values, xp)
    return xp.where(xp.expand_dims(indices, axis) == here, on, off)


@op("ReverseSequence")
def reverse_sequence(call: Call, x: Any, lengths: Any, *, batch_axis: int, time_axis: int) -> Any:
    """The first lengths[i] elements along the time axis of example i reversed; the others stay."""
    batch, time = normal_axis(batch_axis, x.ndim), normal_axis(time_axis, x.ndim)
    if lengths.shape != (x.shape[batch],) or batch == time:
        raise ValueError(f"lengths {list(lengths.shape)} of axis {batch}, along axis {time}, don't fit {list(x.shape)}")
    if not is_traced(lengths) and (np.asarray(lengths) > x.shape[time]).any():
        raise ValueError(f"a length of {np.asarray(lengths).max()} is beyond the {x.shape[time]} of axis {time}")
    xp = module_of(x, lengths)
    x, ends = fitting(x, xp), fitting(lengths, xp).reshape([-1 if axis == batch else 1 for axis in range(x.ndim)])
    places = xp.arange(x.shape[time], dtype=ends.dtype).reshape([-1 if axis == time else 1 for axis in range(x.ndim)])
    return xp.take_along_axis(x, xp.where(places < ends, ends - 1 - places, places), time)


# ---- results whose length depends on values


def _bound_of(call: Call, *values: Any) -> int | None:
    """The bound on the length of results that depend on `values`; None if these have values.

    Raises: NeedsValueError without a bound.
    """
    if not any(map(is_traced, values)):
        return None
    bound = call.bound()
    if bound is None:
        raise NeedsValueError("the values on which the length of its result depends", or_bound=True)
    return bound


def _or_lowest(x: Any, over: Any) -> Any:
    """`x`, or NaN (the lowest integer, true) everywhere if there was more than the bound."""
    if jnp.issubdtype(x.dtype, jnp.bool_):
        return x | over
    lowest = np.nan if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
    return jnp.where(over, jnp.asarray(lowest, x.dtype), x)


@op("NonZero")
def non_zero(call: Call, x: Any) -> Any:
    """The indices of elements that are not zero: a row for each axis. A scalar has no rows.

    Up to a bound, columns are filled with the length of each axis. Such an index is outside: Gather reads NaN, Scatter writes nothing.
    """
    bound = _bound_of(call, x)
    if bound is None:
        there = np.argwhere(known(x, "the values")).T if x.ndim else np.zeros((0, int(bool(known(x, "the value")))), _INDEX)
        return there.astype(_INDEX)
    if not x.ndim:
        raise NeedsValueError("the value of a scalar")
    there = jnp.stack(jnp.nonzero(x, size=bound, fill_value=x.shape))
    return _or_lowest(there, jnp.count_nonzero(x) > bound)


@op("Compress")
def compress(call: Call, x: Any, condition: Any, *, axis: int | None = None) -> Any:
    """The slices of an axis where `condition` is true; elements of the flat array without an axis.

    Up to a bound, the result is filled with zeros.
    """
    flat = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else normal_axis(axis, x.ndim)
    length = flat.shape[axis]
    chosen = condition.reshape(-1)[:length]
    bound = _bound_of(call, condition)
    if bound is None:
        places = np.flatnonzero(known(chosen, "the condition"))
        return taken(flat, places, axis)
    (places,) = jnp.nonzero(chosen, size=bound, fill_value=length)
    filled = jnp.take(fitting(flat), places, axis, mode="fill", fill_value=0)
    return _or_lowest(filled, jnp.count_nonzero(chosen) > bound)


@op("Unique")
def unique(call: Call, x: Any, *, axis: int | None = None, sorted: int) -> Any:
    """The elements, or slices of an axis, that differ: (values, first index of each, index in values of each of x, count of each).

    Up to a bound, values and first indices are filled with zeros and counts with 0, so that counts tell what is there.
    """
    bound = _bound_of(call, x)
    if bound is None:
        values, first, inverse, counts = np.unique(
            known(x, "the values"), return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        order = np.argsort(first) if not sorted else np.arange(first.size)
        rank = np.argsort(order)
        indices = (first[order], rank[inverse.reshape(-1)] if rank.size else inverse.reshape(-1), counts[order])
        return np.take(values, order, axis or 0), *(result.astype(_INDEX) for result in indices)
    return _unique_within(x, axis, bool(sorted), bound)


def _unique_within(x: Any, axis: int | None, is_sorted: bool, bound: int) -> tuple[Any, ...]:
    """Unique of traced values, filled up to a bound."""
    length = x.size if axis is None else x.shape[axis]
    values, first, inverse, counts = jnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis, size=bound, fill_value=0
    )
    inverse, over = inverse.reshape(-1), jnp.sum(counts) < length
    if not is_sorted:
        order = jnp.argsort(jnp.where(counts > 0, first, length))
        values, first, counts = jnp.take(values, order, axis or 0), first[order], counts[order]
        inverse = jnp.argsort(order)[inverse]
    first = jnp.where(counts > 0, first, 0)
    indices = (result.astype(jax_dtype(_INDEX)) for result in (first, inverse, counts))
    return _or_lowest(values, over), *(_or_lowest(result, over) for result in indices)
