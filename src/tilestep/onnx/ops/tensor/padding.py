"""Pad, in its four modes."""

from collections.abc import Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import fitting
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_known, is_traced, known_ints, module_for
from tilestep.onnx.ops.tensor.indexing import sliced
from tilestep.onnx.ops.tensor.shapes import normal_axis

_MODES: Final = ("constant", "reflect", "edge", "wrap")


def _padded(x: Any, pads: Sequence[int], axes: Sequence[int] | None, mode: str, value: Any) -> Any:
    """`x` with elements before and after each of `axes`.

    Args:
        pads: how many before each axis, then how many after each; negative numbers take elements away.
        value: the one element of constants, an array; None for zero, false or no text.
    """
    axes = range(x.ndim) if axes is None else [normal_axis(axis, x.ndim) for axis in axes]
    if len(pads) != 2 * len(axes) or mode not in _MODES:
        raise ValueError(f"{len(pads)} pads for {len(axes)} axes, mode '{mode}': give two for each, and one of {', '.join(_MODES)}")
    around = [(0, 0)] * x.ndim
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        around[axis] = (before, after)
    lengths = [n + before + after for n, (before, after) in zip(x.shape, around, strict=True)]
    if min(lengths, default=0) < 0:
        raise ValueError(f"pads {list(pads)} take more from {list(x.shape)} than there is")
    if value is None:
        value = np.asarray("" if x.dtype.kind == "O" else 0).astype(x.dtype)
    xp = module_for(lengths, x.dtype, x, value)
    if mode == "constant" and xp is jnp:
        return _around(jnp.asarray(fitting(x)), value, around)
    kept = sliced(x if is_known(x) else jnp.asarray(x), [_kept(n, *ends) for n, ends in zip(x.shape, around, strict=True)])
    grown = [(max(before, 0), max(after, 0)) for before, after in around]
    if mode == "constant":
        return np.pad(kept, grown, constant_values=value.reshape(()))
    return xp.pad(kept, grown, mode=mode)


def _around(x: Any, value: Any, around: Sequence[tuple[int, int]]) -> Any:
    """One operation, unless the value is traced: JAX 0.10 has no gradient of a pad's value where `x` is not differentiated."""
    ends = [(before, after, 0) for before, after in around]
    if not is_traced(value):
        return lax.pad(x, jnp.asarray(fitting(value).reshape(()), x.dtype), ends)
    inside = lax.pad(jnp.ones(x.shape, bool), np.array(False), ends)
    return jnp.where(inside, lax.pad(x, jnp.zeros((), x.dtype), ends), value.reshape(()))


def _kept(length: int, before: int, after: int) -> range:
    start, stop = max(-before, 0), length + min(after, 0)
    return range(start, max(start, stop))


@op("Pad", since=1)
def pad_1(call: Call, x: Any, *, paddings: Sequence[int], mode: str, value: float) -> Any:
    """`x` with `paddings` elements before each axis, then after each, which are `value`, reflected, or as the edge."""
    return _padded(x, paddings, None, mode, np.asarray(value).astype(x.dtype))


@op("Pad", since=2)
def pad_2(call: Call, x: Any, *, pads: Sequence[int], mode: str, value: float) -> Any:
    """`x` with `pads` elements before each axis, then after each; negative numbers take away."""
    return _padded(x, pads, None, mode, np.asarray(value).astype(x.dtype))


@op("Pad", since=11, needs=(1, 3))
def pad_11(call: Call, x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> Any:
    """`x` with `pads` elements before each of `axes`, then after each; negative numbers take away."""
    over = None if axes is None else known_ints(axes, "the axes")
    return _padded(x, known_ints(pads, "the pads"), over, mode, value)
