"""Moving values about: shapes, slices, gathers, scatters, conversions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import OpCase, flags, real, whole
from .cases_elementwise import FLOATS, SPECIAL, each, integers

MODES = ("clip", "fill", "promise_in_bounds", "drop")
INSIDE = np.array([[0], [4], [2], [4]], np.int32)
OUTSIDE = np.array([[0], [9], [-3], [4]], np.int32)
CONVERTED = (np.int32, np.int8, np.int64, np.uint8, np.uint32)
EVERYTHING = (*FLOATS, *CONVERTED, np.bool_)
SCATTERS = {"scatter": lax.scatter, "scatter_add": lax.scatter_add, "scatter_sub": lax.scatter_sub, "scatter_mul": lax.scatter_mul} | {
    "scatter_min": lax.scatter_min,
    "scatter_max": lax.scatter_max,
}
ROWS = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
TAKE = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))


def gather(mode: str) -> Callable[..., Any]:
    return lambda x, at: lax.gather(x, at, TAKE, (1, 3), mode=mode, fill_value=-7.0 if mode == "fill" else None)


def scatter(op: Callable[..., Any], mode: str, *, unique: bool) -> Callable[..., Any]:
    return lambda x, at, update: op(x, at, update, ROWS, mode=mode, unique_indices=unique)


def scatters() -> list[OpCase]:
    """Every scatter in every mode. Where indices repeat, order decides the result's last bit: XLA:CPU goes in order."""
    found = []
    for name, op in SCATTERS.items():
        for mode in ("clip", "fill", "promise_in_bounds"):
            at = OUTSIDE if mode != "promise_in_bounds" else INSIDE
            differentiable = name != "scatter_mul"
            found.append(
                OpCase(
                    f"{name}, {mode}", scatter(op, mode, unique=False), real(5, 3), at, real(4, 3), grad=(0, 2) if differentiable else ()
                )
            )
    found.append(
        OpCase(
            "scatter_mul, unique", scatter(lax.scatter_mul, "clip", unique=True), real(5, 3), np.array([[3], [1]]), real(2, 3), grad=(0, 2)
        )
    )
    return found


CASES = (
    OpCase(
        "reshape, squeeze, expand_dims",
        lambda x: (x.reshape(6, 4), x.reshape(-1), lax.squeeze(x[None], (0,)), jnp.expand_dims(x, (0, 2))),
        real(2, 3, 4),
        grad=(0,),
    ),
    OpCase(
        "transpose", lambda x: (x.T, jnp.transpose(x, (1, 2, 0)), jnp.moveaxis(x, 0, 1), jnp.swapaxes(x, 0, 2)), real(2, 3, 4), grad=(0,)
    ),
    OpCase(
        "broadcast",
        lambda x: (lax.broadcast(x, (2, 3)), lax.broadcast_in_dim(x, (4, 2, 3), (0, 2)), jnp.broadcast_to(x, (5, 4, 3))),
        real(4, 3),
        grad=(0,),
    ),
    OpCase(
        "concatenate, stack, unstack, split",
        lambda x, y: (jnp.concatenate([x, y, x], 1), lax.stack([x, y], 1), lax.unstack(x), lax.split(y, (1, 2), 1)),
        real(4, 3),
        real(4, 3),
        grad=(0, 1),
    ),
    OpCase(
        "tile and repeat",
        lambda x: (lax.tile(x, (2, 3)), jnp.repeat(x, np.array([1, 0, 2, 1]), axis=0, total_repeat_length=4)),
        real(4, 3),
        grad=(0,),
        only="jit",
    ),
    OpCase("pad", lambda x: (lax.pad(x, 1.0, ((1, 2, 0), (0, 1, 2))), lax.pad(x, 0.0, ((-1, 0, 0), (2, -1, 1)))), real(4, 3), grad=(0,)),
    OpCase("rev", lambda x: (lax.rev(x, (0,)), x[::-1, ::-1]), real(4, 3), grad=(0,)),
    OpCase("slice", lambda x: (x[1:3], x[::2, 1], x[-1], lax.slice(x, (1, 0), (4, 3), (2, 2))), real(5, 3), grad=(0,)),
    OpCase(
        "dynamic_slice",
        lambda x, i: (lax.dynamic_slice(x, (i[0], i[1]), (2, 2)), lax.dynamic_index_in_dim(x, i[2])),
        real(5, 4),
        np.array([1, 9, -1], np.int32),
        grad=(0,),
    ),
    OpCase(
        "dynamic_update_slice",
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i[0], i[1])),
        real(5, 4),
        real(2, 2),
        np.array([4, 1], np.int32),
        grad=(0, 1),
    ),
    *(
        OpCase(f"gather, {mode}", gather(mode), real(5, 3), OUTSIDE if mode != "promise_in_bounds" else INSIDE, grad=(0,))
        for mode in MODES[:3]
    ),
    OpCase(
        "gather, windows",
        lambda x, i: jax.vmap(lambda at: lax.dynamic_slice(x, (at,), (3,)))(i),
        real(9),
        whole(4, low=0, high=9),
        grad=(0,),
    ),
    OpCase(
        "take and indexing",
        lambda x, i: (jnp.take(x, i, 0), x[i, 1], x[:, i % 3], x[i[:, None], i % 3], jnp.take_along_axis(x, i[:, None] % 3, 1)),
        real(6, 3),
        whole(6, low=0, high=6),
        grad=(0,),
        only="jit",
    ),
    *scatters(),
    OpCase("scatter_apply", lambda x, at: lax.scatter_apply(x, at, jnp.sin, ROWS, update_shape=(4, 3)), real(5, 3), INSIDE),
    OpCase(
        "scatter of integers and booleans",
        lambda x, b, at: (x.at[at].add(3), x.at[at].max(2), b.at[at].set(True), x.at[at].power(2)),
        whole(6),
        flags(6),
        whole(4, low=0, high=6),
    ),
    OpCase(
        "iota, eye, arange",
        lambda: (
            lax.iota(np.int32, 7),
            lax.broadcasted_iota(np.float32, (3, 4), 1),
            jnp.eye(3, 4, 1),
            jnp.arange(2, 9, 3),
            jnp.linspace(0, 1, 5),
            jnp.tri(3),
        ),
    ),
    OpCase(
        "full, zeros and empty",
        lambda x: (jnp.full((2, 3), 7), jnp.zeros_like(x), jnp.ones((0, 3)), lax.empty((3,), np.float32) * 0),
        real(3),
    ),
    OpCase(
        "arrays without elements",
        lambda x: (x.sum(), x.T, x @ jnp.zeros((3, 2)), jnp.concatenate([x, x])),
        np.zeros((0, 3), np.float32),
        grad=(0,),
    ),
    OpCase(
        "copy and barriers",
        lambda x: (jnp.array(x, copy=True), lax.optimization_barrier((x, x + 1)), lax.stage(x), lax.stop_gradient(x) * x),
        real(5),
        grad=(0,),
    ),
    OpCase(
        "convert_element_type, every pair",
        lambda *xs: [lax.convert_element_type(x, to) for x in xs for to in EVERYTHING],
        *[real(5, dtype=dtype, low=0, high=100) for dtype in FLOATS],
        *integers(CONVERTED),
        flags(5),
        x64=True,
        only="jit",
    ),
    OpCase(
        "convert_element_type",
        lambda x: (x.astype(np.int32), x.astype(jnp.bfloat16), x.astype(np.float16), x.astype(np.complex64), x.astype(bool)),
        real(9),
        grad=(0,),
    ),
    OpCase("convert_element_type, special values", lambda x: (x.astype(np.float16), x.astype(jnp.bfloat16), x.astype(np.bool_)), SPECIAL),
    OpCase(
        "bitcast_convert_type",
        each(lambda x: [lax.bitcast_convert_type(x, to) for to in (np.int32, np.float32, np.int16, jnp.bfloat16, np.uint8)]),
        real(4),
        whole(4),
    ),
    OpCase(
        "bitcast_convert_type, wide",
        lambda x: (lax.bitcast_convert_type(x, np.int64), x.view(np.uint32)),
        real(4, dtype=np.float64),
        x64=True,
    ),
)
