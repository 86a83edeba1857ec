"""Reductions, running reductions, argmin and argmax, windows, sorting."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import OpCase, cplx, flags, real, whole
from .cases_elementwise import COMPLEX, FLOATS, every_dtype, integers

MATRICES = [real(4, 6, dtype=dtype) for dtype in FLOATS]
NUMBERS = [*MATRICES, *[cplx(4, 6, dtype=dtype) for dtype in COMPLEX], *integers((np.int32, np.int8, np.uint32, np.int64))]
ORDERED = [*MATRICES, *integers(), flags(4, 6)]
WITH_NAN = np.array([[1, np.nan, 3], [2, 2, -np.inf], [np.nan, np.nan, 0.0], [5, 5, 1]], np.float32)
STEPS = np.array([3, 1, 2, 2, 1, 3, 0, 0], np.int32)


def logsumexp_pair(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    return a[0] + b[0], jnp.maximum(a[1], b[1])


CASES = (
    *every_dtype("reduce_sum", lambda x: (x.sum(), x.sum(0), x.sum((0, 1), keepdims=True)), NUMBERS),
    *every_dtype("reduce_prod", lambda x: (x.prod(), x.prod(1)), NUMBERS, long=True),
    *every_dtype("reduce_max", lambda x: (x.max(), x.max(1)), ORDERED),
    *every_dtype("reduce_min", lambda x: (x.min(), x.min(1)), ORDERED),
    *every_dtype("argmax", lambda x: (jnp.argmax(x), jnp.argmax(x, 1), lax.argmax(x, 0, np.int32)), ORDERED, differentiable=False),
    *every_dtype("argmin", lambda x: (jnp.argmin(x), jnp.argmin(x, 1), lax.argmin(x, 0, np.uint32)), ORDERED, differentiable=False),
    OpCase(
        "reductions of NaN",
        lambda x: (
            x.sum(1),
            x.prod(1),
            x.max(1),
            x.min(1),
            jnp.argmax(x, 1),
            jnp.argmin(x, 1),
            jnp.sort(x),
            jnp.argsort(x),
            lax.cummax(x, 1),
        ),
        WITH_NAN,
    ),
    OpCase(
        "reduce_and, or, xor",
        lambda b, i: (b.all(0), b.any(1), jnp.bitwise_xor.reduce(i), jnp.bitwise_and.reduce(i)),
        flags(4, 5),
        whole(9),
    ),
    OpCase("reduce_xor", lambda i: lax.reduce_xor(i, axes=(0,)), whole(4, 3)),
    OpCase(
        "lax.reduce, own function", lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b + a + b, (1,)), real(3, 4, low=0, high=0.2)
    ),
    OpCase(
        "lax.reduce, several at once",
        lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(-9)), logsumexp_pair, (0,)),
        real(5, 3),
        real(5, 3),
    ),
    *every_dtype("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), MATRICES, long=True),
    *every_dtype(
        "cumulative",
        lambda x: (lax.cumsum(x, 0), lax.cumsum(x, 1, reverse=True), lax.cumprod(x, 1), lax.cummax(x, 0), lax.cummin(x, 1)),
        MATRICES + integers((np.int32, np.uint8), high=3),
        long=True,
    ),
    *every_dtype("cumulative, complex", lambda x: (lax.cumsum(x), lax.cumprod(x)), [cplx(5, dtype=dtype) for dtype in COMPLEX], long=True),
    OpCase("reduce_window_sum", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2), (1, 2, 1), "SAME"), real(2, 8, 6), grad=(0,)),
    OpCase("reduce_window_max", lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2), (1, 2, 2), "VALID"), real(2, 8, 6), grad=(0,)),
    OpCase("reduce_window_min", lambda x: lax.reduce_window(x, np.inf, lax.min, (3,), (2,), "SAME"), real(11), grad=(0,)),
    OpCase(
        "reduce_window, dilated and padded",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), ((1, 0), (2, 2)), base_dilation=(2, 1), window_dilation=(1, 2)),
        real(4, 7),
        grad=(0,),
    ),
    OpCase("reduce_window, own function", lambda x: lax.reduce_window(x, np.float32(1), lax.mul, (2, 2), (1, 1), "VALID"), real(4, 5)),
    OpCase(
        "reduce_window, several at once",
        lambda x, y: lax.reduce_window((x, y), (np.float32(0), np.float32(-9)), logsumexp_pair, (3,), (1,), "VALID"),
        real(7),
        real(7),
    ),
    OpCase(
        "reduce_window, integers",
        lambda x: (lax.reduce_window(x, 0, lax.add, (3,), (1,), "SAME"), lax.reduce_window(x, -99, lax.max, (3,), (1,), "SAME")),
        whole(9),
    ),
    OpCase(
        "select_and_scatter",
        lambda x, source: jax._src.lax.windowed_reductions._select_and_scatter(
            x, lax.ge, (2, 2), (2, 2), ((0, 0), (0, 0)), source, np.float32(0), lambda a, b: a + b
        ),
        real(4, 6),
        real(2, 3),
    ),
    OpCase(
        "max pooling, twice differentiated",
        lambda x: jax.grad(lambda v: (lax.reduce_window(v, -np.inf, lax.max, (2,), (2,), "VALID") ** 3).sum())(x),
        real(8),
        grad=(0,),
    ),
    *every_dtype("sort", lambda x: (lax.sort(x, dimension=0), lax.sort(x), jnp.sort(x, descending=True)), ORDERED),
    OpCase("sort, complex", lambda x: jnp.sort(x), cplx(3, 7)),
    OpCase(
        "sort, stable with ties",
        lambda k, v: lax.sort((k, v), num_keys=1, is_stable=True),
        STEPS,
        np.arange(8, dtype=np.float32),
        grad=(1,),
    ),
    OpCase("sort, two keys", lambda k, v, w: lax.sort((k, v, w), num_keys=2), whole(20, low=0, high=3), real(20), real(20), grad=(2,)),
    OpCase("sort_key_val", lambda k, v: lax.sort_key_val(k, v), real(9), real(9), grad=(0, 1)),
    *every_dtype("top_k", lambda x: lax.top_k(x, 3), MATRICES),
    OpCase("approx_max_k and approx_min_k", lambda x: (lax.approx_max_k(x, 3), lax.approx_min_k(x, 3)), real(2, 40)),
)
