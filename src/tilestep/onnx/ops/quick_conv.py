"""Convolutions that XLA:CPU computes slowly, in a form that it computes quickly: on the CPU only.

Other platforms have one operation of XLA for each of them. So has the derivative on all platforms: it keeps the operands for the backward
pass, and nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from tilestep.onnx.ops.windows import Windows
from tilestep.onnx.values import is_known

MOST_TAPS: Final = 64  # elements of a window, each of which is an operation to compile
MOST_ELEMENTS: Final = 1 << 26  # of all windows, which a product has in memory

_Form = Callable[[Any, Any, Windows, int], Any]


def convolution(x: Any, w: Any, at: Windows, group: int) -> Any:
    """A convolution of x [N, C, D1, ...] with w [M, C / group, k1, ...], in their dtype, which is the same."""
    are_constants = is_known(w)  # XLA lays them out when it compiles
    x, w = jnp.asarray(x), jnp.asarray(w)
    form = _quick_form(x, w, at, group, are_constants)
    return plain(x, w, at, group) if form is None else _with_form(x, w, at, group, form)


def plain(x: Any, w: Any, at: Windows, group: int) -> Any:
    """One operation of XLA."""
    return jax.lax.conv_general_dilated(x, w, at.strides, at.padding, rhs_dilation=at.dilations, feature_group_count=group)


def _quick_form(x: Any, w: Any, at: Windows, group: int, are_constants: bool) -> _Form | None:
    """The quick form of a convolution that is slow as one operation; None if it is not, or does not fit its weights."""
    taps, outputs = math.prod(at.kernel), len(x) * math.prod(at.outputs)
    if x.shape[1] != w.shape[1] * group or w.shape[0] % group or taps > MOST_TAPS:
        return None
    if 1 < group == x.shape[1]:
        return _summed
    is_whole = not jnp.issubdtype(x.dtype, jnp.floating)  # XLA:CPU has no kernels for integers
    # Windows are put in rows sooner than kernels are transposed; a product of halves would add halves.
    are_few = outputs < len(w) and group == 1 and x.dtype.itemsize > 2 and not are_constants
    return _multiplied if (is_whole or are_few) and outputs * x.shape[1] * taps <= MOST_ELEMENTS else None


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
@functools.partial(jax.jit, static_argnums=(2, 3, 4), inline=True)  # so that a call that is not traced finds its program again
def _with_form(x: Any, w: Any, at: Windows, group: int, form: _Form) -> Any:
    quick, one = (functools.partial(function, at=at, group=group) for function in (form, plain))
    return jax.lax.platform_dependent(x, w, cpu=quick, default=one)


@functools.partial(_with_form.defjvp, symbolic_zeros=True)
def _with_form_jvp(at: Windows, group: int, form: _Form, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    pairs = (tangents[0], primals[1]), (primals[0], tangents[1])
    parts = [plain(*pair, at, group) for pair in pairs if not any(isinstance(value, SymbolicZero) for value in pair)]
    y = _with_form(*primals, at, group, form)
    return y, sum(parts[1:], parts[0]) if parts else jnp.zeros_like(y)


def _elements(x: Any, at: Windows) -> Iterator[Any]:
    """For each element of a window: what all windows have there, [N, O1, ..., C]. Channels are last, so that they are vectors."""
    field = jnp.pad(jnp.moveaxis(x, 1, -1), ((0, 0), *at.padding, (0, 0)))
    for tap in np.ndindex(*at.kernel):
        starts = [index * dilation for index, dilation in zip(tap, at.dilations, strict=True)]
        ends = [start + (count - 1) * stride + 1 for start, count, stride in zip(starts, at.outputs, at.strides, strict=True)]
        yield jax.lax.slice(field, (0, *starts, 0), (len(x), *ends, x.shape[1]), (1, *at.strides, 1))


def _summed(x: Any, w: Any, at: Windows, group: int) -> Any:
    """Each channel by itself: products of elements and kernels, one after the other. Halves are added as float32."""
    sums = jnp.promote_types(x.dtype, np.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype
    kernels = w.reshape(len(w), -1).T.astype(sums)
    spread = jnp.repeat(x, len(w) // group, axis=1)  # the same array if a channel makes one
    products = (part.astype(sums) * kernel for part, kernel in zip(_elements(spread, at), kernels, strict=True))
    return jnp.moveaxis(functools.reduce(jax.lax.add, products).astype(x.dtype), -1, 1)


def _multiplied(x: Any, w: Any, at: Windows, group: int) -> Any:
    """The product of the kernels and of all windows, which stand in rows for it."""
    length, outputs = w[0].size, len(x) * math.prod(at.outputs)
    rows = jnp.stack(list(_elements(x, at)), axis=-1).reshape(outputs, group, length)
    y = jax.lax.dot_general(w.reshape(group, len(w) // group, length), rows, (((2,), (2,)), ((0,), (1,))))
    return jnp.moveaxis(y.reshape(len(w), len(x), *at.outputs), 0, 1)
