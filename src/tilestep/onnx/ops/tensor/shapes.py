"""Shapes of arrays: asking for them, changing them, and arrays that are made from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
import onnx

from tilestep.onnx.interpreter.convert import fitting
from tilestep.onnx.interpreter.graph import array_of
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import jax_dtype, known, known_ints, known_scalar, module_for, module_of
from tilestep.onnx.ops.tensor.casts import dtype_of

_CONSTANT_TYPES: Final = {  # a Constant's attribute -> dtype
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


@op("Shape", since=1)
def shape(call: Call, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """The lengths of the axes from `start` to `end`, which may count from the back, as int64."""
    return np.asarray(x.shape[start:end], np.int64)


@op("Size")
def size(call: Call, x: Any) -> Any:
    """The number of elements, as int64."""
    return np.asarray(math.prod(x.shape), np.int64)


@op("Identity")
def identity(call: Call, x: Any) -> Any:
    """The value itself, whatever it is."""
    return x


# ---- the same elements in another shape


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises: ValueError if the array has no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside of [{-rank}, {rank - 1}]")
    return axis % rank


def reshaped(x: Any, lengths: Sequence[int], allowzero: bool) -> Any:
    """`x` with other lengths: 0 keeps one, unless `allowzero`, and -1 is what the others leave."""
    if not allowzero:
        if any(n == 0 for n in lengths[x.ndim :]):
            raise ValueError(f"shape {list(lengths)} keeps an axis that {list(x.shape)} doesn't have")
        lengths = [x.shape[i] if n == 0 else n for i, n in enumerate(lengths)]
    if sum(n < 0 for n in lengths) > 1 or min(lengths, default=0) < -1:
        raise ValueError(f"shape {list(lengths)} has more than one length that is not known")
    if -1 in lengths:
        others = math.prod(n for n in lengths if n != -1)
        if others == 0:
            raise ValueError(f"shape {list(lengths)} has both 0 and -1, so that the latter may be anything")
        lengths = [x.size // others if n == -1 else n for n in lengths]
    return x.reshape(tuple(lengths))


@op("Reshape", since=1)
def reshape_1(call: Call, x: Any, *, shape: Sequence[int] = (), consumed_inputs: Any = None) -> Any:
    """The elements in another shape: 0 keeps a length, and -1 is what the others leave."""
    return reshaped(x, shape, allowzero=False)


@op("Reshape", since=5, needs=(1,))
def reshape(call: Call, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """The elements in another shape: 0 keeps a length, unless `allowzero`, and -1 is what the others leave."""
    return reshaped(x, known_ints(shape, "the shape"), bool(allowzero))


@op("Flatten")
def flatten(call: Call, x: Any, *, axis: int) -> Any:
    """A matrix: the axes before `axis` become its rows, the others its columns."""
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"axis {axis} is outside of [{-x.ndim}, {x.ndim}]")
    first = axis + x.ndim * (axis < 0)
    return x.reshape((math.prod(x.shape[:first]), math.prod(x.shape[first:])))


@op("Transpose")
def transpose(call: Call, x: Any, *, perm: Sequence[int] | None = None) -> Any:
    """The axes in the order `perm`; reversed if there is none."""
    return module_of(x).transpose(x, perm)


def _squeezed(x: Any, axes: Sequence[int] | None) -> Any:
    if axes is None:
        axes = [i for i, n in enumerate(x.shape) if n == 1]
    return module_of(x).squeeze(x, tuple(normal_axis(axis, x.ndim) for axis in axes))


def _unsqueezed(x: Any, axes: Sequence[int]) -> Any:
    return module_of(x).expand_dims(x, tuple(axes))


@op("Squeeze", since=1)
def squeeze_1(call: Call, x: Any, *, axes: Sequence[int] | None = None) -> Any:
    """Without the `axes`, whose length is 1; without all such axes if none are given."""
    return _squeezed(x, axes)


@op("Squeeze", since=13, needs=(1,))
def squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    """Without the `axes`, whose length is 1; without all such axes if none are given."""
    return _squeezed(x, None if axes is None else known_ints(axes, "the axes"))


@op("Unsqueeze", since=1)
def unsqueeze_1(call: Call, x: Any, *, axes: Sequence[int]) -> Any:
    """With axes of length 1, which are the `axes` of the result."""
    return _unsqueezed(x, axes)


@op("Unsqueeze", since=13, needs=(1,))
def unsqueeze(call: Call, x: Any, axes: Any) -> Any:
    """With axes of length 1, which are the `axes` of the result."""
    return _unsqueezed(x, known_ints(axes, "the axes"))


@op("SpaceToDepth")
def space_to_depth(call: Call, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """[N, C, H, W] with blocks of H and W moved to the channels: the place in the block is outermost (DCR) or innermost (CRD)."""
    n, c, h, w = x.shape
    blocks = x.reshape((n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    order = _order(mode, (0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4))
    return blocks.transpose(order).reshape((n, c * blocksize**2, h // blocksize, w // blocksize))


@op("DepthToSpace")
def depth_to_space(call: Call, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """[N, C, H, W] with channels moved to blocks of H and W: the place in the block is outermost (DCR) or innermost (CRD)."""
    n, c, h, w = x.shape
    depth = c // blocksize**2
    blocks = x.reshape(_order(mode, (n, blocksize, blocksize, depth, h, w), (n, depth, blocksize, blocksize, h, w)))
    order = _order(mode, (0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3))
    return blocks.transpose(order).reshape((n, depth, h * blocksize, w * blocksize))


def _order(mode: str, dcr: tuple[int, ...], crd: tuple[int, ...]) -> tuple[int, ...]:
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"mode '{mode}' is neither DCR nor CRD")
    return dcr if mode == "DCR" else crd


# ---- more elements


def _concatenated(values: Sequence[Any], axis: int) -> Any:
    axis = normal_axis(axis, values[0].ndim)
    total = sum(value.size for value in values)
    xp = module_for((total,), values[0].dtype, *values)
    if len({value.dtype for value in values}) > 1 and xp is np:
        raise ValueError(f"types {', '.join(sorted({str(value.dtype) for value in values}))} differ")
    return xp.concatenate([fitting(value, xp) for value in values], axis)


@op("Concat", since=1)
def concat_1(call: Call, *values: Any, axis: int = 1) -> Any:
    """The arrays one after the other along `axis`."""
    return _concatenated(values, axis)


@op("Concat", since=4)
def concat(call: Call, *values: Any, axis: int) -> Any:
    """The arrays one after the other along `axis`, which must be given."""
    return _concatenated(values, axis)


@op("Expand", needs=(1,))
def expand(call: Call, x: Any, shape: Any) -> Any:
    """`x` broadcast with an array of `shape`, as in NumPy: the result may have longer axes than `shape`."""
    lengths = np.broadcast_shapes(x.shape, tuple(known_ints(shape, "the shape")))
    xp = module_for(lengths, x.dtype, x)
    return xp.broadcast_to(fitting(x, xp), lengths)


def _tiled(x: Any, repeats: Sequence[int]) -> Any:
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise ValueError(f"repeats {list(repeats)} have to be {x.ndim} numbers that are not negative")
    lengths = [n * times for n, times in zip(x.shape, repeats, strict=True)]
    xp = module_for(lengths, x.dtype, x)
    return xp.tile(fitting(x, xp), repeats)


@op("Tile", since=1, needs=(1, 2))
def tile_1(call: Call, x: Any, tiles: Any, axis: Any) -> Any:
    """`x` repeated `tiles` times along one axis. Both numbers have the type of `x`."""
    repeated = normal_axis(int(known_scalar(axis, "the axis")), x.ndim)
    times = int(known_scalar(tiles, "the number of tiles"))
    return _tiled(x, [times if i == repeated else 1 for i in range(x.ndim)])


@op("Tile", since=6, needs=(1,))
def tile(call: Call, x: Any, repeats: Any) -> Any:
    """`x` repeated along each axis."""
    return _tiled(x, known_ints(repeats, "the repeats"))


@op("CenterCropPad", needs=(1,))
def center_crop_pad(call: Call, x: Any, shape: Any, *, axes: Sequence[int] | None = None) -> Any:
    """`x` with other lengths along `axes`: cut or filled with zeros evenly at both ends, the odd one at the end."""
    chosen = range(x.ndim) if axes is None else [normal_axis(axis, x.ndim) for axis in axes]
    lengths = list(x.shape)
    for axis, length in zip(chosen, known_ints(shape, "the shape"), strict=True):
        lengths[axis] = length
    kept, around = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, (old, new) in enumerate(zip(x.shape, lengths, strict=True)):
        start = abs(new - old) // 2
        if new < old:
            kept[axis] = slice(start, start + new)
        else:
            around[axis] = (start, new - old - start)
    xp = module_for(lengths, x.dtype, x)
    return xp.pad(fitting(x[tuple(kept)], xp), around)


# ---- made of nothing


@op("Constant")
def constant(
    call: Call,
    *,
    value: Any = None,
    sparse_value: onnx.SparseTensorProto | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Any:
    """The one value among its attributes."""
    given = [name for name in call.node.attributes if name == "value" or name.startswith(("value_", "sparse_"))]
    if len(given) != 1:
        raise ValueError(f"a constant has one value, and this one has {len(given)}")
    if sparse_value is not None:
        return _dense(sparse_value)
    if given[0] != "value":
        return np.asarray(call.node.attributes[given[0]], _CONSTANT_TYPES[given[0]])
    if not isinstance(value, np.ndarray):
        raise TypeError(f"value is a {type(value).__name__}: it must be a tensor")
    return value


def _dense(sparse: onnx.SparseTensorProto) -> Any:
    """The array of a sparse tensor, whose indices are flat, or rows of one for each axis."""
    values, indices, lengths = array_of(sparse.values), array_of(sparse.indices), tuple(sparse.dims)
    total = math.prod(lengths)
    ends = lengths if indices.ndim > 1 else (total,)
    if ((indices < 0) | (indices >= np.asarray(ends))).any():
        raise ValueError(f"the sparse tensor has an index outside of {list(lengths)}")
    if indices.ndim > 1:
        indices = np.ravel_multi_index(tuple(indices.T), lengths)
    xp = module_for(lengths, values.dtype)
    if xp is jnp:
        return jnp.zeros(total, jax_dtype(values.dtype)).at[indices].set(values).reshape(lengths)
    flat = np.zeros(total, values.dtype)
    flat[indices] = values
    return flat.reshape(lengths)


@op("ConstantOfShape", needs=(0,))
def constant_of_shape(call: Call, shape: Any, *, value: Any = None) -> Any:
    """An array of `shape` whose elements are the one of `value`, or float32 zeros."""
    element = np.zeros((), np.float32) if value is None else value.reshape(())
    lengths = known_ints(shape, "the shape")
    xp = module_for(lengths, element.dtype)
    return xp.full(lengths, element, element.dtype if xp is np else jax_dtype(element.dtype))


@op("EyeLike")
def eye_like(call: Call, x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on the diagonal `k` of a matrix as large as `x`, zeros elsewhere. The matrix has the dtype of `x` if none is given."""
    rows, columns = x.shape
    made = x.dtype if dtype is None else dtype_of(dtype)
    xp = module_for((rows, columns), made)
    return xp.eye(rows, columns, k, dtype=made if xp is np else jax_dtype(made))


@op("Range", needs=(0, 1, 2))
def arange(call: Call, start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    """Numbers from `start` until before `limit`, in steps of `delta`. Number i is start + i * delta, rounded once."""
    first, end, step = (known(value, "the range").reshape(()) for value in (start, limit, delta))
    if step == 0:
        raise ValueError("a range has a step of 0")
    if np.issubdtype(first.dtype, np.integer):
        count = -((int(first) - int(end)) // int(step))
        exact = np.dtype(np.int64)
    else:
        wide = np.promote_types(first.dtype, np.float32) if first.dtype.kind == "f" else np.float32
        count = math.ceil((end.astype(wide) - first.astype(wide)) / step.astype(wide))
        exact = np.dtype(np.float64)
    count = max(count, 0)
    xp = module_for((count,), exact)
    if xp is np:
        return (np.arange(count) * step.astype(exact) + first.astype(exact)).astype(first.dtype)
    last = fitting(np.asarray(int(first) + (count - 1) * int(step))) if exact == np.int64 else None
    made = jax_dtype(exact if last is not None else np.float32)
    return (jnp.arange(count, dtype=made) * step.astype(made) + first.astype(made)).astype(jax_dtype(first.dtype))
