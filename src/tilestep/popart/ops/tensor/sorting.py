"""Operators that order elements: sorts, medians, and the buckets between ordered boundaries."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import require_axes
from tilestep.popart.ops.describing import DOMAIN, shape_text, type_text


@op("Sort", domain=DOMAIN)
def sort(call: Call, x: Any, *, axis: int = -1, descending: int = 0, stable: int = 0) -> tuple[Any, Any]:
    """The elements in order along an axis, and the index that each had. Equal ones keep their order."""
    x = jnp.asarray(x)
    if not -x.ndim <= axis < x.ndim:
        raise popart_exception(f"axis {axis} is outside of [{-x.ndim}, {x.ndim - 1}]")
    indices = jnp.argsort(lax.stop_gradient(x), axis=axis, stable=True, descending=bool(descending)).astype(np.int32)
    return jnp.take_along_axis(x, indices, axis=axis), indices


@op("ReduceMedian", domain=DOMAIN)
def reduce_median(call: Call, x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> tuple[Any, Any]:
    """The median along axes, of an even number of elements the lower one, and its index among the elements of these axes."""
    x = jnp.asarray(x)
    chosen = _axes(x, axes)
    others = [axis for axis in range(x.ndim) if axis not in chosen]
    count = math.prod(x.shape[axis] for axis in chosen)
    rows = x.transpose((*others, *chosen)).reshape(*(x.shape[axis] for axis in others), count)
    place = jnp.argsort(rows, axis=-1, stable=True)[..., (count - 1) // 2, None]
    median = jnp.take_along_axis(rows, place, axis=-1)
    shape = [1 if axis in chosen else length for axis, length in enumerate(x.shape) if keepdims or axis not in chosen]
    return median.reshape(shape), place.astype(np.int32).reshape(shape)


def _axes(x: Any, axes: Sequence[int] | None) -> list[int]:
    if axes is None:
        return list(range(x.ndim))
    require_axes(x, axes)
    return sorted({axis % x.ndim for axis in axes})


@op("Bucketize", domain=DOMAIN)
def bucketize(call: Call, x: Any, boundaries: Any, *, right: int = 0) -> Any:
    """The number of boundaries that are below each element; with `right` also those that equal it."""
    if right not in (0, 1):
        raise popart_exception(f"BucketizeOp right = {right} is not valid: must be either 0 or 1.")
    if boundaries.ndim != 1:
        raise popart_exception(
            f"BucketizeOp::setup The boundaries tensor is not a 1-D tensor. The boundaries tensor rank = {boundaries.ndim}, its shape "
            f"{shape_text(boundaries.shape)}."
        )
    if x.dtype != boundaries.dtype:
        raise popart_exception(
            "BucketizeOp::setup The input and boundaries tensors have different data types. The input tensor data type = "
            f"{type_text(x.dtype).lower()}. The boundaries tensor data type = {type_text(boundaries.dtype).lower()}."
        )
    side = "right" if right else "left"
    return jnp.searchsorted(jnp.asarray(boundaries), jnp.asarray(x), side=side).astype(np.int32)
