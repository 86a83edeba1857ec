"""Operators that read or write elements at given places: Slice, Split, the Gather and the Scatter families.

An index beyond its axis is an error, where the indices are known. In a program it reads NaN (the lowest integer), and writes nothing,
because a program cannot raise.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import fitting
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, is_known, is_traced, known_ints, module_for
from tilestep.onnx.ops.tensor.shapes import normal_axis

# ---- slices


def sliced(x: Any, ranges: Sequence[range]) -> Any:
    """The elements of `x` at these indices of each axis, which are inside of it. In a program it is one slice, and a reversal."""
    if is_known(x):
        return x[tuple(map(_slice, ranges))]
    starts, limits, strides = zip(*map(_forwards, ranges), strict=True) if ranges else ((), (), ())
    backwards = [axis for axis, indices in enumerate(ranges) if indices.step < 0 and len(indices) > 1]
    part = lax.slice(x, starts, limits, strides)
    return lax.rev(part, backwards) if backwards else part


def _slice(indices: range) -> slice:
    if not indices:
        return slice(0, 0)
    return slice(indices.start, None if indices.stop < 0 else indices.stop, indices.step)


def _forwards(indices: range) -> tuple[int, int, int]:
    """(start, limit, stride) of the same indices in rising order."""
    if not indices:
        return 0, 0, 1
    return min(indices[0], indices[-1]), max(indices[0], indices[-1]) + 1, abs(indices.step)


def _chosen(length: int, start: int, end: int, step: int) -> range:
    """The indices of an axis from `start` until before `end`. Both may count from the back, and are limited to the axis."""
    if step == 0:
        raise ValueError("a slice has a step of 0")
    start, end = (bound + length if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return range(min(max(start, 0), length), min(max(end, 0), length), step)
    return range(min(max(start, 0), length - 1), min(max(end, -1), length - 1), step)


def cut(x: Any, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None) -> Any:
    """The elements from `starts` until before `ends`, in `steps`, of each axis of `axes`; of the first axes if it is None."""
    ranges = [range(length) for length in x.shape]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        normal = normal_axis(axis, x.ndim)
        ranges[normal] = _chosen(x.shape[normal], start, end, step)
    return sliced(x, ranges)


@op("Slice", since=1)
def slice_1(call: Call, x: Any, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None) -> Any:
    """The elements from `starts` until before `ends` of each axis of `axes`."""
    return cut(x, starts, ends, axes, None)


@op("Slice", since=10, needs=(1, 2, 3, 4))
def slice_10(call: Call, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """The elements from `starts` until before `ends`, in `steps` that may go backwards, of each axis of `axes`."""
    lists = [None if given is None else known_ints(given, what) for given, what in ((axes, "the axes"), (steps, "the steps"))]
    return cut(x, known_ints(starts, "the starts"), known_ints(ends, "the ends"), *lists)


def _parts(call: Call, x: Any, axis: int, lengths: Sequence[int]) -> tuple[Any, ...]:
    if len(lengths) != call.num_outputs:
        raise ValueError(f"{len(lengths)} parts for {call.num_outputs} outputs")
    if sum(lengths) != x.shape[axis] or min(lengths) < 0:
        raise ValueError(f"parts of {list(lengths)} don't make up the {x.shape[axis]} of axis {axis}")
    parts: list[Any] = []
    start = 0
    for length in lengths:
        parts.append(sliced(x, [range(start, start + length) if i == axis else range(n) for i, n in enumerate(x.shape)]))
        start += length
    return tuple(parts)


def _even(length: int, count: int) -> list[int]:
    if length % count:
        raise ValueError(f"{length} elements don't divide into {count} equal parts")
    return [length // count] * count


@op("Split", since=1, needs=(1,))
def split_1(call: Call, x: Any, lengths: Any = None, *, axis: int = 0, split: Sequence[int] | None = None) -> Any:
    """Parts of an axis, whose lengths are an input or an attribute; equal parts if neither is given."""
    axis = normal_axis(axis, x.ndim)
    if lengths is not None:
        split = known_ints(lengths, "the lengths of the parts")
    return _parts(call, x, axis, _even(x.shape[axis], call.num_outputs) if split is None else split)


@op("Split", since=2)
def split_2(call: Call, x: Any, *, axis: int, split: Sequence[int] | None = None) -> Any:
    """Parts of an axis with lengths `split`; equal ones if it is not given."""
    axis = normal_axis(axis, x.ndim)
    return _parts(call, x, axis, _even(x.shape[axis], call.num_outputs) if split is None else split)


@op("Split", since=13, needs=(1,))
def split_13(call: Call, x: Any, lengths: Any = None, *, axis: int) -> Any:
    """Parts of an axis with these lengths; equal ones if none are given."""
    axis = normal_axis(axis, x.ndim)
    split = _even(x.shape[axis], call.num_outputs) if lengths is None else known_ints(lengths, "the lengths of the parts")
    return _parts(call, x, axis, split)


@op("Split", since=18, needs=(1,))
def split_18(call: Call, x: Any, lengths: Any = None, *, axis: int, num_outputs: int | None = None) -> Any:
    """Parts of an axis with these lengths, or `num_outputs` equal ones, of which the last may be smaller."""
    axis = normal_axis(axis, x.ndim)
    if lengths is not None:
        return _parts(call, x, axis, known_ints(lengths, "the lengths of the parts"))
    count, length = num_outputs or call.num_outputs, x.shape[axis]
    most = -(-length // count)
    return _parts(call, x, axis, [max(0, min(most, length - i * most)) for i in range(count)])


# ---- reading


def checked(indices: Any, length: int) -> Any:
    """Indices of an axis, counted from the front, as NumPy's array if they have a value; traced ones are unchanged.

    Raises: IndexError for one outside of the axis.
    """
    if is_traced(indices):
        return indices
    values = np.asarray(indices)
    beyond = (values < -length) | (values >= length)
    if beyond.any():
        raise IndexError(f"index {values[beyond].ravel()[0]} is outside of [{-length}, {length - 1}]")
    return np.where(values < 0, values + length, values)


def _mode(indices: Any, otherwise: str) -> str:
    return "promise_in_bounds" if isinstance(indices, np.ndarray) else otherwise


@op("Gather")
def gather(call: Call, x: Any, indices: Any, *, axis: int) -> Any:
    """The slices of `x` at `indices` of an axis, which the axes of `indices` replace."""
    axis = normal_axis(axis, x.ndim)
    return taken(x, checked(indices, x.shape[axis]), axis)


def taken(x: Any, places: Any, axis: int) -> Any:
    """The slices of `x` at places of an axis, which are traced, or NumPy's and inside of it."""
    shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    xp = module_for(shape, x.dtype, x, places)
    if xp is np:
        return np.take(x, places, axis)
    x = jnp.asarray(fitting(x))
    if is_known(places) and (run := _run_of(places)) is not None:
        return sliced(x, [run if i == axis else range(n) for i, n in enumerate(x.shape)]).reshape(shape)
    sure = is_known(places)
    return x.at[(slice(None),) * axis + (places,)].get(mode=_mode(places, "fill"), wrap_negative_indices=not sure)


def _run_of(places: Array) -> range | None:
    """The range that known indices are, because a slice is cheaper than a gather; None if they are none."""
    if places.size == 0:
        return None
    first = int(places.flat[0])
    run = range(first, first + places.size)
    return run if np.array_equal(places.ravel(), run) else None


@op("GatherElements")
def gather_elements(call: Call, x: Any, indices: Any, *, axis: int) -> Any:
    """Of each line along an axis the elements at `indices`. `x` may be longer than `indices` along the other axes."""
    axis = normal_axis(axis, x.ndim)
    x = _as_large(x, indices, axis)
    places = checked(indices, x.shape[axis])
    if is_known(x) and isinstance(places, np.ndarray):
        return np.take_along_axis(x, places, axis)
    return jnp.take_along_axis(jnp.asarray(fitting(x)), places, axis, mode=_mode(places, "fill"))


def _as_large(x: Any, indices: Any, axis: int) -> Any:
    """The part of `x` that indices along `axis` can reach."""
    if indices.ndim != x.ndim or any(n < m for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis):
        raise ValueError(f"indices {list(indices.shape)} reach beyond {list(x.shape)}")
    return sliced(x, [range(n if i == axis else m) for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))])


def _columns(indices: Any, lengths: Sequence[int]) -> tuple[Any, ...]:
    """Tuples of indices, which are the last axis, as an array of indices for each of the axes."""
    count = indices.shape[-1]
    if count > len(lengths):
        raise ValueError(f"{count} indices for {len(lengths)} axes")
    return tuple(checked(indices[..., i], lengths[i]) for i in range(count))


def _at(x: Any, columns: tuple[Any, ...]) -> Any:
    sure = all(isinstance(column, np.ndarray) for column in columns)
    return x.at[columns].get(mode="promise_in_bounds" if sure else "fill", wrap_negative_indices=not sure)


@op("GatherND")
def gather_nd(call: Call, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """The slices of `x` at tuples of indices, which are the last axis of `indices`. The first `batch_dims` axes go together."""
    if x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ValueError(f"the first {batch_dims} axes of {list(x.shape)} and {list(indices.shape)} differ")
    columns = _columns(indices, x.shape[batch_dims:])
    shape = (*indices.shape[:-1], *x.shape[batch_dims + len(columns) :])
    if module_for(shape, x.dtype, x, columns) is np:
        grid = np.ogrid[tuple(slice(n) for n in indices.shape[:batch_dims])] if batch_dims else ()
        batch = [places.reshape(places.shape + (1,) * (indices.ndim - 1 - batch_dims)) for places in grid]
        return x[(*batch, *columns)]
    read: Callable[..., Any] = _at
    for _ in range(batch_dims):
        read = jax.vmap(read)
    return read(jnp.asarray(fitting(x)), columns)


# ---- writing

_COMBINING: Final = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}
_COMBINING_KNOWN: Final = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _written(x: Any, columns: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    """`x` with `updates` at indices of its first axes."""
    if reduction not in _COMBINING:
        raise ValueError(f"reduction '{reduction}' is none of {', '.join(_COMBINING)}")
    sure = all(isinstance(column, np.ndarray) for column in columns)
    if is_known(x) and is_known(updates) and sure:
        result = np.array(x)
        if reduction == "none":
            result[columns] = updates
        else:
            _COMBINING_KNOWN[reduction].at(result, columns, updates)
        return result
    x, updates = jnp.asarray(fitting(x)), jnp.asarray(fitting(updates))
    mode = "promise_in_bounds" if sure else "drop"
    unique = sure and _differ(columns, x.shape)
    if reduction == "mul" and not unique and columns:
        return _multiplied(x, columns, updates)
    write = getattr(x.at[columns], _COMBINING[reduction])
    return write(updates, mode=mode, unique_indices=unique, wrap_negative_indices=not sure)


@jax.custom_jvp
def _multiplied(x: Any, columns: tuple[Any, ...], updates: Any) -> Any:
    """`x` times `updates` at indices of its first axes, some of which may be the same; indices beyond its ends are left out."""
    return x.at[columns].multiply(updates, mode="drop")


@_multiplied.defjvp
def _multiplied_slope(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """JAX has no derivative of products at the same index. Here the updates of an index are multiplied first, in order."""
    x, columns, updates = primals
    sizes = x.shape[: len(columns)]
    inside = functools.reduce(jnp.logical_and, [(column >= -size) & (column < size) for column, size in zip(columns, sizes, strict=True)])
    places = jnp.ravel_multi_index([column % size for column, size in zip(columns, sizes, strict=True)], sizes, mode="wrap")
    places = jnp.where(inside, places, math.prod(sizes)).ravel()
    order = jnp.argsort(places)
    places = places[order]
    is_last = jnp.append(places[1:] != places[:-1], True)  # whether an update is the last of its index
    rest = x.shape[len(columns) :]

    def join(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        alike = (left[0] == right[0]).reshape(-1, *(1,) * len(rest))
        return right[0], jnp.where(alike, left[1] * right[1], right[1])

    def by_index(x: Any, updates: Any) -> Any:
        products = jax.lax.associative_scan(join, (places, updates.reshape(-1, *rest)[order]))[1]
        flat = x.reshape(-1, *rest)
        ends = jnp.where(is_last, places, len(flat) + jnp.arange(places.size, dtype=places.dtype))  # those beyond the end are dropped
        return flat.at[ends].multiply(products, mode="drop", unique_indices=True).reshape(x.shape)

    return _multiplied(x, columns, updates), jax.jvp(by_index, (x, updates), (tangents[0], tangents[2]))[1]


def _differ(columns: tuple[Array, ...], shape: Sequence[int]) -> bool:
    """Whether no two of known tuples of indices are the same, which makes writing cheaper."""
    flat = np.ravel_multi_index(np.broadcast_arrays(*columns), tuple(shape[: len(columns)])) if columns else np.zeros(0, np.int64)
    return np.unique(flat).size == flat.size


def _scattered(x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    axis = normal_axis(axis, x.ndim)
    if indices.shape != updates.shape or indices.ndim != x.ndim:
        raise ValueError(f"indices {list(indices.shape)} and updates {list(updates.shape)} have to agree, and to have {x.ndim} axes")
    columns: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    if any(n < m for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis):
        raise ValueError(f"indices {list(indices.shape)} reach beyond {list(x.shape)}")
    columns[axis] = checked(indices, x.shape[axis])
    return _written(x, tuple(columns), updates, reduction)


@op("Scatter", since=9)
@op("ScatterElements", since=11)
def scatter_elements(call: Call, x: Any, indices: Any, updates: Any, *, axis: int, reduction: str = "none") -> Any:
    """`x` with the elements at `indices` of each line along an axis replaced by `updates`, or combined with them."""
    return _scattered(x, indices, updates, axis, reduction)


@op("ScatterND")
def scatter_nd(call: Call, x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    """`x` with the slices at tuples of indices replaced by `updates`, or combined with them."""
    columns = _columns(indices, x.shape)
    shape = (*indices.shape[:-1], *x.shape[len(columns) :])
    if updates.shape != shape:
        raise ValueError(f"updates of {list(updates.shape)} should have {list(shape)}")
    return _written(x, columns, updates, reduction)


@op("TensorScatter")
def tensor_scatter(call: Call, cache: Any, update: Any, write_indices: Any = None, *, axis: int, mode: str) -> Any:
    """A cache [batch, ...] with `update` written along an axis, from an index of each example on; a circular one goes round."""
    axis = normal_axis(axis, cache.ndim)
    if axis == 0 or mode not in ("linear", "circular"):
        raise ValueError(f"axis {axis} has to be none of the batch, and mode '{mode}' linear or circular")
    length, written = cache.shape[axis], update.shape[axis]
    if written > length:
        raise ValueError(f"{written} elements don't fit into a cache of {length}")
    starts = np.zeros(cache.shape[0], np.int32) if write_indices is None else write_indices
    places = starts[:, None] + np.arange(written, dtype=starts.dtype)
    places = places % length if mode == "circular" else checked(places, length)
    before = (slice(None),) * (axis - 1)
    rows = jax.vmap(lambda old, new, where: old.at[(*before, where)].set(new, mode=_mode(places, "drop"), unique_indices=True))
    return rows(jnp.asarray(cache), jnp.asarray(update), jnp.asarray(places))
