"""Functions of jax.numpy, jax.nn, jax.image and jax.experimental.ode that are made of many operations, each jitted as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import ode

from .case import LAPACK, OpCase, real, whole
from .cases_reduce import WITH_NAN


def program(name: str, fn: Callable[..., Any], *args: Any, **options: Any) -> OpCase:
    return OpCase(name, fn, *args, only="jit", **options)


CASES = (
    program(
        "jax.nn",
        lambda x: (
            [
                getattr(jax.nn, name)(x)
                for name in (
                    "relu",
                    "relu6",
                    "gelu",
                    "silu",
                    "softplus",
                    "sigmoid",
                    "elu",
                    "celu",
                    "selu",
                    "mish",
                    "hard_tanh",
                    "soft_sign",
                )
            ]
            + [jax.nn.leaky_relu(x), jax.nn.log_sigmoid(x), jax.nn.glu(x, axis=0), jax.nn.hard_swish(x), jax.nn.squareplus(x)]
        ),
        real(4, 5),
        grad=(0,),
    ),
    program(
        "jax.nn normalised",
        lambda x: (
            jax.nn.softmax(x),
            jax.nn.log_softmax(x),
            jax.nn.logsumexp(x, axis=0),
            jax.nn.standardize(x),
            jax.nn.one_hot(jnp.arange(3), 5),
        ),
        real(4, 5),
        grad=(0,),
    ),
    program(
        "statistics",
        lambda x: (
            x.mean(0),
            x.var(1),
            x.std(),
            jnp.median(x, axis=1),
            jnp.percentile(x, 30.0),
            jnp.quantile(x, 0.7, axis=0),
            jnp.ptp(x),
            jnp.cov(x),
        ),
        real(4, 7),
        grad=(0,),
        long=True,
    ),
    program(
        "reductions that skip NaN",
        lambda x: (jnp.nansum(x, 1), jnp.nanmean(x, 0), jnp.nanmax(x), jnp.nanargmax(x[0]), jnp.nanmedian(x), jnp.nanstd(x)),
        WITH_NAN[[0, 3]],
    ),
    program("norms", lambda x: [jnp.linalg.norm(x, order, axis=1) for order in (None, 1, 2, 3, np.inf, -np.inf)], real(4, 5), grad=(0,)),
    program(
        "histogram and bincount", lambda x, i: (jnp.histogram(x, 5)[0], jnp.bincount(i, length=12)), real(30), whole(30, low=0, high=12)
    ),
    program(
        "searchsorted and digitize", lambda x, at: (jnp.searchsorted(jnp.sort(x), at), jnp.digitize(at, jnp.sort(x))), real(12), real(5)
    ),
    program("partition", lambda x: (jnp.partition(x, 3), jnp.argpartition(x, 3)), real(3, 9)),
    program(
        "segment sums",
        lambda x, i: (jax.ops.segment_sum(x, i, 4), jax.ops.segment_max(x, i, 4)),
        real(12, 2),
        whole(12, low=0, high=4),
        grad=(0,),
    ),
    program(
        "jax.image",
        lambda x: [jax.image.resize(x, (7, 9), method) for method in ("nearest", "linear", "cubic", "lanczos3")],
        real(4, 5),
        grad=(0,),
    ),
    program(
        "jax.image.scale_and_translate",
        lambda x: jax.image.scale_and_translate(x, (6, 6), (0, 1), jnp.array([1.5, 0.7]), jnp.array([0.2, 1.0]), "linear"),
        real(4, 5),
        grad=(0,),
    ),
    program(
        "polynomials",
        lambda p, x: (jnp.polyval(p, x), jnp.polyder(p), jnp.polyint(p), jnp.polymul(p, p), jnp.vander(x, 3)),
        real(4),
        real(5),
        grad=(0, 1),
    ),
    program(
        "roots and polyfit",
        lambda p, x: (jnp.sort(jnp.abs(jnp.roots(p, strip_zeros=False))), jnp.polyfit(jnp.arange(5.0), x, 2)),
        real(4),
        real(5),
        rtol=1e-3,
        atol=1e-4,
        why=LAPACK,
        long=True,
    ),
    program(
        "interpolation and integration",
        lambda x, y: (jnp.interp(x, jnp.arange(6.0), y), jnp.trapezoid(y), jnp.gradient(y), jnp.diff(y, 2)),
        real(5, low=0, high=5),
        real(6),
        grad=(0, 1),
    ),
    program("convolution of signals", lambda x, w: (jnp.convolve(x, w), jnp.correlate(x, w, "same")), real(12), real(4), grad=(0, 1)),
    program(
        "einsum",
        lambda a, b, c: (jnp.einsum("bij,bjk,k->bi", a, b, c), jnp.einsum("bii->b", a @ b), jnp.einsum("bij->jb", a)),
        real(2, 3, 4),
        real(2, 4, 3),
        real(3),
        grad=(0, 1, 2),
    ),
    program(
        "products",
        lambda a, b: (
            jnp.kron(a, b),
            jnp.outer(a[0], b[0]),
            jnp.inner(a, a),
            jnp.tensordot(a, b, 1),
            jnp.cross(a[0], b[0]),
            jnp.vdot(a, b),
        ),
        real(3, 3),
        real(3, 3),
        grad=(0, 1),
    ),
    program(
        "sets",
        lambda x, y: (jnp.isin(x, y), jnp.union1d(x, y, size=12), jnp.intersect1d(x, y, size=6), jnp.setdiff1d(x, y, size=6)),
        whole(8),
        whole(8),
        long=True,
    ),
    program(
        "where, nonzero, choose",
        lambda x: (jnp.nonzero(x > 0, size=6), jnp.argwhere(x > 0, size=6), jnp.flatnonzero(x, size=9), jnp.count_nonzero(x)),
        whole(9),
    ),
    program(
        "shapes",
        lambda x: (
            jnp.roll(x, 2, 1),
            jnp.flip(x),
            jnp.rot90(x),
            jnp.tile(x, (2, 1)),
            jnp.repeat(x, 2, 0),
            jnp.tril(x),
            jnp.triu(x),
            jnp.diag(x),
            jnp.block([[x, x], [x, x]]),
        ),
        real(3, 3),
        grad=(0,),
    ),
    program(
        "integers of jnp",
        lambda a, b: (
            jnp.gcd(a, b),
            jnp.lcm(a, b),
            jnp.floor_divide(a, b),
            jnp.mod(a, b),
            jnp.divmod(a, b),
            jnp.packbits(a > 0),
            jnp.left_shift(a, 2),
        ),
        whole(8, low=1),
        whole(8, low=1),
    ),
    program(
        "bits of floats",
        lambda x: (jnp.frexp(x), jnp.modf(x), jnp.ldexp(x, 3), jnp.heaviside(x, 0.5), jnp.spacing(x), jnp.copysign(x, -x)),
        real(8),
    ),
    program(
        "vectorize and apply_along_axis",
        lambda x: (jnp.vectorize(lambda v: v @ v, signature="(n)->()")(x), jnp.apply_along_axis(jnp.cumsum, 0, x)),
        real(3, 4),
        grad=(0,),
    ),
    program(
        "attention",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        real(1, 6, 2, 4),
        real(1, 6, 2, 4),
        real(1, 6, 2, 4),
        grad=(0, 1, 2),
    ),
    program("ode", lambda y: ode.odeint(lambda y, t: -y * t, y, jnp.linspace(0.0, 1.0, 4)), real(3), grad=(0,), long=True),
)
