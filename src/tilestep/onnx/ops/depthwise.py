"""Convolutions of each channel by itself: one operation of XLA, and on the CPU, where that takes up to thirty times as long, a sum.

The derivative is that of the one operation on each platform: it keeps the operands and nothing else for the backward pass.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from tilestep.onnx.ops.windows import Windows

MOST_TAPS: Final = 64  # elements of a window that are written as a sum; each one is an operation to compile


def plain(x: Any, w: Any, at: Windows, group: int) -> Any:
    """One operation of XLA, in ONNX's layout."""
    return jax.lax.conv_general_dilated(x, w, at.strides, at.padding, rhs_dilation=at.dilations, feature_group_count=group)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
@functools.partial(jax.jit, static_argnums=2, inline=True)  # so that a call that is not traced finds its program again
def depthwise(x: Any, w: Any, at: Windows) -> Any:
    """x [N, C, D1, ...] with w [C * multiplier, 1, k1, ...], in ONNX's layout; each channel of x makes `multiplier` of the result."""
    one = functools.partial(plain, at=at, group=x.shape[1])
    return jax.lax.platform_dependent(x, w, cpu=functools.partial(_summed, at=at), default=one)


@functools.partial(depthwise.defjvp, symbolic_zeros=True)
def _depthwise_jvp(at: Windows, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    x, w = primals
    pairs = (tangents[0], w), (x, tangents[1])
    parts = [plain(*pair, at, x.shape[1]) for pair in pairs if not any(isinstance(value, SymbolicZero) for value in pair)]
    y = depthwise(x, w, at)
    return y, sum(parts[1:], parts[0]) if parts else jnp.zeros_like(y)


def _summed(x: Any, w: Any, at: Windows) -> Any:
    """The products of each element of the windows, one after the other, with channels last, so that they are vectors."""
    sums = jnp.promote_types(x.dtype, np.float32) if jnp.issubdtype(x.dtype, np.floating) else x.dtype
    taps = jnp.moveaxis(w, 0, -1)[0].astype(sums)
    field = jnp.pad(jnp.moveaxis(x, 1, -1), ((0, 0), *at.padding, (0, 0))).astype(sums)
    field = jnp.repeat(field, w.shape[0] // x.shape[1], axis=-1)
    total: Any = None
    for tap in np.ndindex(*at.kernel):
        starts = [index * dilation for index, dilation in zip(tap, at.dilations, strict=True)]
        ends = [start + (count - 1) * stride + 1 for start, count, stride in zip(starts, at.outputs, at.strides, strict=True)]
        part = jax.lax.slice(field, (0, *starts, 0), (field.shape[0], *ends, field.shape[-1]), (1, *at.strides, 1))
        total = part * taps[tap] if total is None else total + part * taps[tap]
    return jnp.moveaxis(total.astype(x.dtype), -1, 1)
