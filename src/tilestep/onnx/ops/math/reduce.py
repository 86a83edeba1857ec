"""Operators that make fewer elements of many along axes: sums and their like, arg max, running sums, top k."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known, jax_dtype, known_ints, known_scalar, module_of

Reduction = Callable[[Any, tuple[int, ...], bool], Any]  # (array, axes from 0 on, whether they stay) -> array
_AXES_ATTRIBUTE_ENDS: Final = 18  # the version from which most reductions take their axes as an input


def _reduction(name: str, *, axes_input_since: int = _AXES_ATTRIBUTE_ENDS, doc: str = "") -> Callable[[Reduction], Reduction]:
    """Registers a reduction in both forms: with the axes as an attribute, and as an input. Args: doc: of a function without one."""

    def decorator(reduce: Reduction) -> Reduction:
        def with_attribute(call: Call, x: Any, *, axes: Sequence[int] = (), keepdims: int = 1) -> Any:
            return reduce(x, _axes(x, axes or range(x.ndim)), bool(keepdims))

        def with_input(call: Call, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
            given = [] if axes is None else known_ints(axes, "the axes")
            return reduce(x, _axes(x, given or ([] if noop_with_empty_axes else range(x.ndim))), bool(keepdims))

        with_attribute.__doc__ = with_input.__doc__ = doc or reduce.__doc__
        op(name)(with_attribute)
        op(name, since=axes_input_since, needs=(1,))(with_input)
        return reduce

    return decorator


def _axes(x: Any, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes without repeats, each at least 0. Raises: ValueError for one that `x` does not have."""
    return tuple(dict.fromkeys(_axis(x, axis) for axis in axes))


def _axis(x: Any, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of an array that has {x.ndim} axes")
    return axis % x.ndim


def _float(x: Any) -> Any:
    """`x` as JAX's floats, where it has integers."""
    return jnp.asarray(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.asarray(x).astype(jax_dtype(np.float64))


def _total(function: str, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """A sum or a product in the type of the input. Small floats are added as float32, which JAX does unless a type is given."""
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    if is_known(x) and not (is_float and x.dtype.itemsize < 4):
        return getattr(np, function)(x, axis=axes, keepdims=keep, dtype=x.dtype)
    return getattr(jnp, function)(x, axis=axes, keepdims=keep, dtype=None if is_float else x.dtype)


_PLAIN: Final[Mapping[str, tuple[str, Reduction]]] = {
    "ReduceSum": ("The sum along the axes, in the type of the input.", lambda x, axes, keep: _total("sum", x, axes, keep)),
    "ReduceSumSquare": ("The sum of the squares along the axes.", lambda x, axes, keep: _total("sum", x * x, axes, keep)),
    "ReduceL1": ("The sum of the absolute values along the axes.", lambda x, axes, keep: _total("sum", abs(x), axes, keep)),
    "ReduceProd": ("The product along the axes, in the type of the input.", lambda x, axes, keep: _total("prod", x, axes, keep)),
    "ReduceLogSum": (
        "The logarithm of the sum along the axes.",
        lambda x, axes, keep: jnp.log(_float(_total("sum", x, axes, keep))).astype(x.dtype),
    ),
    "ReduceMax": (
        "The largest element along the axes. Of no elements it is minus infinity, or the type's least value.",
        lambda x, axes, keep: _extreme("max", x, axes, keep),
    ),
    "ReduceMin": (
        "The smallest element along the axes. Of no elements it is infinity, or the type's greatest value.",
        lambda x, axes, keep: _extreme("min", x, axes, keep),
    ),
}
for _name, (_doc, _reduce) in _PLAIN.items():
    _reduction(_name, axes_input_since=13 if _name == "ReduceSum" else _AXES_ATTRIBUTE_ENDS, doc=_doc)(_reduce)


@_reduction("ReduceL2")
def reduce_l2(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The root of the sum of the squares along the axes. Its gradient is 0 where it is 0. Integers lose their fraction."""
    squares = _float(_total("sum", x * x, axes, keep))
    zero = squares == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, squares))).astype(x.dtype)


@_reduction("ReduceMean")
def reduce_mean(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The mean along the axes. Integers are divided towards zero."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.mean(x, axis=axes, keepdims=keep)
    count = math.prod(x.shape[axis] for axis in axes)
    if not count:
        raise ValueError(f"the mean of no integers, along axes {list(axes)} of shape {list(x.shape)}")
    total = jnp.asarray(_total("sum", x, axes, keep))
    return lax.div(total, jnp.full(total.shape, count, total.dtype))


def _extreme(which: str, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    module = module_of(x)
    if all(x.shape[axis] for axis in axes):
        return getattr(module, which)(x, axis=axes, keepdims=keep)
    if x.dtype == np.bool_:
        nothing: Any = which == "min"
    elif jnp.issubdtype(x.dtype, jnp.floating):
        nothing = -np.inf if which == "max" else np.inf
    else:
        limits = jnp.iinfo(x.dtype)
        nothing = int(limits.min if which == "max" else limits.max)
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    return module.full(shape, nothing, x.dtype)


@_reduction("ReduceLogSumExp")
def reduce_log_sum_exp(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The logarithm of the sum of the exponentials along the axes, without overflow in between."""
    return jax.nn.logsumexp(_float(x), axis=axes, keepdims=keep).astype(x.dtype)


@op("ArgMax")
def arg_max(call: Call, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """The index of the largest element along the axis: of equal ones the first, or from version 12 on the last if asked."""
    return _arg(jnp.argmax, x, _axis(x, axis), bool(keepdims), bool(select_last_index))


@op("ArgMin")
def arg_min(call: Call, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """The index of the smallest element along the axis: of equal ones the first, or from version 12 on the last if asked."""
    return _arg(jnp.argmin, x, _axis(x, axis), bool(keepdims), bool(select_last_index))


def _arg(function: Callable[..., Any], x: Any, axis: int, keep: bool, last: bool) -> Any:
    if not x.shape[axis]:
        raise ValueError(f"no index along axis {axis}, which has no elements")
    if not last:
        return function(x, axis=axis, keepdims=keep).astype(jax_dtype(np.int64))
    return x.shape[axis] - 1 - function(jnp.flip(x, axis), axis=axis, keepdims=keep).astype(jax_dtype(np.int64))


@op("CumSum", since=11, needs=(1,))
def cum_sum(call: Call, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """The sums of all elements up to each one along the axis, itself included unless `exclusive`; from the end if `reverse`."""
    return _running("cumsum", x, _axis(x, known_scalar(axis, "the axis")), 0, bool(exclusive), bool(reverse))


@op("CumProd", since=26, needs=(1,))
def cum_prod(call: Call, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """The products of all elements up to each one along the axis, itself included unless `exclusive`; from the end if `reverse`."""
    return _running("cumprod", x, _axis(x, known_scalar(axis, "the axis")), 1, bool(exclusive), bool(reverse))


def _running(which: str, x: Any, axis: int, first: int, exclusive: bool, reverse: bool) -> Any:
    module = module_of(x)
    if exclusive and x.shape[axis]:
        kept = lax.slice_in_dim if module is jnp else _numpy_slice
        rest = kept(x, 1, x.shape[axis], axis=axis) if reverse else kept(x, 0, x.shape[axis] - 1, axis=axis)
        shape = [*x.shape]
        shape[axis] = 1
        edge = module.full(shape, first, x.dtype)
        x = module.concatenate([rest, edge] if reverse else [edge, rest], axis)
    if module is jnp:
        return getattr(lax, which)(x, axis=axis, reverse=reverse)
    ordered = np.flip(x, axis) if reverse else x
    result = getattr(np, which)(ordered, axis=axis, dtype=x.dtype)
    return np.flip(result, axis) if reverse else result


def _numpy_slice(x: Any, start: int, stop: int, axis: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@op("TopK")
def top_k_1(call: Call, x: Any, *, k: int, axis: int = -1) -> Any:
    """The k largest elements along the axis with their indices, the largest first, and of equal ones the one with the lower index."""
    return _top_k(x, k, axis, largest=True)


@op("TopK", since=10, needs=(1,))
def top_k_10(call: Call, x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """As before, with k as an input. From version 11 on it gives the smallest elements if `largest` is 0; the result is always sorted."""
    return _top_k(x, known_scalar(k, "k"), axis, largest=bool(largest))


def _top_k(x: Any, k: int, axis: int, *, largest: bool) -> tuple[Any, Any]:
    axis = _axis(x, axis)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"k is {k}, and axis {axis} has {x.shape[axis]} elements")
    x = jnp.asarray(x)
    ordered = x if largest else _reversed_order(x)
    values, indices = lax.top_k(jnp.moveaxis(ordered, axis, -1), k)
    values = values if largest else _reversed_order(values)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis).astype(jax_dtype(np.int64))


def _reversed_order(x: Any) -> Any:
    """What is smaller the larger `x` is; twice, it is `x` again."""
    return ~x if jnp.issubdtype(x.dtype, jnp.integer) else -x
