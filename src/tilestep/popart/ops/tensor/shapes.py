"""Operators that pick, order or make elements: views, slices with fixed and with computed places."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import module_for, module_of
from tilestep.onnx.ops.tensor.indexing import cut, sliced
from tilestep.onnx.ops.tensor.shapes import depth_to_space as onnx_depth_to_space
from tilestep.onnx.ops.tensor.shapes import reshaped
from tilestep.popart.enums import DataType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, op_text
from tilestep.popart.ops.gradients import without_gradient


@op("Reshape", domain=DOMAIN)
def reshape(call: Call, x: Any, *, shape: Sequence[int] = ()) -> Any:
    """The elements in another shape: 0 keeps a length, and -1 is what the others leave."""
    return reshaped(x, shape, allowzero=False)


@op("Slice", domain=DOMAIN)
def slice_by(call: Call, x: Any, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] = (), steps: Sequence[int] = ()) -> Any:
    """The elements from `starts` until before `ends` of each axis of `axes`; of the first axes if none are given."""
    return cut(x, starts, ends, axes or None, steps or None)


@op("Reverse", domain=DOMAIN)
def reverse(call: Call, x: Any, *, dimensions: Sequence[int] = ()) -> Any:
    """The elements in the opposite order along the dimensions."""
    name = op_text(call.node)
    for number, dimension in enumerate(dimensions):
        if dimension < 0:
            raise popart_exception(f"ReverseOp '{name}' invalid dimension '{dimension}'. Only positive dimensions are supported")
        if dimension >= x.ndim:
            raise popart_exception(f"ReverseOp '{name}' invalid dimension '{dimension}' for input tensor of rank {x.ndim}")
        if dimension in dimensions[:number]:
            raise popart_exception(f"Dimension {dimension} appears multiple times in the list of dimensions of ReverseOp '{name}'")
    return module_of(x).flip(x, tuple(dimensions))


@op("DepthToSpace", domain=DOMAIN)
def depth_to_space(call: Call, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """[N, C, H, W] with channels moved to blocks of H and W: the place in the block is outermost (DCR) or innermost (CRD)."""
    if mode not in ("DCR", "CRD"):
        raise popart_exception(f"Unrecognised DepthToSpaceMode {mode}")
    return onnx_depth_to_space(call, x, blocksize=blocksize, mode=mode)


@op("Subsample", domain=DOMAIN)
def subsample(call: Call, x: Any, *, strides: Sequence[int]) -> Any:
    """Every `stride`-th element of each axis, from the first on."""
    for axis, stride in enumerate(strides):
        if stride == 0:
            raise popart_exception(f"Strides invalid. 0 stride at index {axis}")
    ranges = [range(0, length, stride) for length, stride in zip(x.shape, strides, strict=False)]
    return sliced(x, [*ranges, *map(range, x.shape[len(ranges) :])])


@op("Init", domain=DOMAIN)
def init(call: Call, *, shape: Sequence[int], data_type: int, init_type: int = 0, tensor_type: int = 0, batch_axis: int = -1) -> Any:
    """Zeros, also where the original would leave what is in memory. Args: data_type: the number of a `DataType`."""
    dtype = np.dtype(_DTYPES[DataType(data_type).name])
    xp = module_for(tuple(shape), dtype)
    return xp.zeros(tuple(shape), dtype)


_DTYPES = {
    "UINT8": "uint8",
    "INT8": "int8",
    "UINT16": "uint16",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int32",
    "UINT32": "uint32",
    "UINT64": "uint32",
    "BOOL": "bool",
    "FLOAT": "float32",
    "FLOAT16": "float16",
}


# ---- computed places


def _starts(x: Any, index: Any, axes: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    if len(axes) != len(sizes) or index.size != len(axes):
        raise ValueError(f"{len(axes)} axes, {len(sizes)} sizes and {index.size} indices have to be as many")
    flat = jnp.asarray(index).reshape(-1).astype(np.int32)
    zero = jnp.zeros((), np.int32)
    starts: list[Any] = [zero] * x.ndim
    for number, axis in enumerate(axes):
        starts[axis] = flat[number]
    return starts


def _part(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> list[int]:
    lengths = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        lengths[axis] = size
    return lengths


@op("DynamicSlice", domain=DOMAIN)
def dynamic_slice(
    call: Call, x: Any, index: Any, into: Any = None, *, axes: Sequence[int], sizes: Sequence[int], noOverlap: int = 0
) -> Any:
    """`sizes` elements of `axes` from `index` on. Args: into: has the shape of the result; the original writes there."""
    part = lax.dynamic_slice(jnp.asarray(x), _starts(x, index, axes, sizes), _part(x, axes, sizes))
    return part if into is None else part.reshape(into.shape)


@op("DynamicUpdate", domain=DOMAIN)
def dynamic_update(call: Call, x: Any, index: Any, update: Any, *, axes: Sequence[int], sizes: Sequence[int], noOverlap: int = 0) -> Any:
    """x with `update` in place of `sizes` elements of `axes` from `index` on.

    Args: noOverlap: promises that no update meets another one, so that the gradient goes on to x without zeros in those places.
    """
    new, starts = jnp.asarray(update).reshape(_part(x, axes, sizes)), _starts(x, index, axes, sizes)
    return (_updated if noOverlap else lax.dynamic_update_slice)(jnp.asarray(x), new, starts)


@jax.custom_vjp
def _updated(x: Any, update: Any, starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, starts)


def _updated_forward(x: Any, update: Any, starts: Any) -> tuple[Any, Any]:
    return _updated(x, update, starts), (update.shape, starts)


def _updated_backward(kept: Any, cotangent: Any) -> tuple[Any, Any, None]:
    shape, starts = kept
    return cotangent, lax.dynamic_slice(cotangent, starts, shape), None


_updated.defvjp(_updated_forward, _updated_backward)


@op("DynamicZero", domain=DOMAIN)
def dynamic_zero(call: Call, x: Any, index: Any, *, axes: Sequence[int], sizes: Sequence[int], noOverlap: int = 0) -> Any:
    """x with zeros in place of `sizes` elements of `axes` from `index` on."""
    return lax.dynamic_update_slice(jnp.asarray(x), jnp.zeros(_part(x, axes, sizes), x.dtype), _starts(x, index, axes, sizes))


@op("DynamicAdd", domain=DOMAIN)
def dynamic_add(call: Call, x: Any, index: Any, update: Any, *, axes: Sequence[int], sizes: Sequence[int], noOverlap: int = 0) -> Any:
    """x with `update` added to `sizes` elements of `axes` from `index` on."""
    lengths, starts = _part(x, axes, sizes), _starts(x, index, axes, sizes)
    x = jnp.asarray(x)
    return lax.dynamic_update_slice(x, lax.dynamic_slice(x, starts, lengths) + update.reshape(lengths), starts)


@op("SequenceSlice", domain=DOMAIN)
def sequence_slice(
    call: Call, source: Any, destination: Any, count: Any, source_offset: Any, destination_offset: Any, *, zeroUnused: int = 0
) -> Any:
    """Rows of `destination` replaced by those of `source`: `count[i]` rows from each of the offsets on.

    Args: zeroUnused: whether rows of the destination that nothing replaces become zeros.
    """
    rows = np.arange(destination.shape[0], dtype=np.int32)
    counts, reads, writes = (jnp.asarray(values).reshape(-1, 1).astype(np.int32) for values in (count, source_offset, destination_offset))
    covered = (rows >= writes) & (rows < writes + counts)
    last = len(covered) - 1 - jnp.argmax(covered[::-1], axis=0)  # the last of the sequences that write to a row stays
    origin = jnp.where(covered.any(0), rows - writes[last, 0] + reads[last, 0], 0)
    written = covered.any(0).reshape(-1, *(1,) * (destination.ndim - 1))
    old = jnp.zeros((), destination.dtype) if zeroUnused else without_gradient(destination)
    return jnp.where(written, jnp.take(without_gradient(source), origin, axis=0, mode="clip"), old)
