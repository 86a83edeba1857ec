"""Functions of JAX that are made of many operations with rows of their own: of each kind one program."""

import jax
import jax.numpy as jnp
import jax.scipy.stats
from jax.experimental import ode

from .case import OpCase, real, whole

CASES = (
    OpCase(
        "jax.nn",
        lambda x: [f(x) for f in (jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jax.nn.selu, jax.nn.log_softmax, jax.nn.logsumexp)],
        real(4, 5),
        grad=(0,),
        only="jit",
    ),
    OpCase(
        "statistics",
        lambda x: (x.mean(0), x.var(1), jnp.median(x, axis=1), jnp.quantile(x, 0.7, axis=0), jnp.cov(x)),
        real(4, 7),
        grad=(0,),
        only="jit",
        long=True,
    ),
    OpCase(
        "segment sums",
        lambda x, i: (jax.ops.segment_sum(x, i, 4), jax.ops.segment_max(x, i, 4)),
        real(12, 2),
        whole(12, low=0, high=4),
        grad=(0,),
        only="jit",
    ),
    OpCase("jax.image", lambda x: jax.image.resize(x, (7, 9), "cubic"), real(4, 5), grad=(0,), only="jit"),
    OpCase("nonzero", lambda x: (jnp.nonzero(x > 0, size=6), jnp.argwhere(x > 0, size=6)), whole(9), only="jit"),
    OpCase(
        "einsum",
        lambda a, b, c: (jnp.einsum("bij,bjk,k->bi", a, b, c), jnp.einsum("bii->b", a @ b)),
        real(2, 3, 4),
        real(2, 4, 3),
        real(3),
        grad=(0, 1, 2),
        only="jit",
    ),
    OpCase(
        "attention",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        real(1, 6, 2, 4),
        real(1, 6, 2, 4),
        real(1, 6, 2, 4),
        grad=(0, 1, 2),
        only="jit",
    ),
    OpCase(
        "ode",
        lambda y: ode.odeint(lambda y, t: -y * t, y, jnp.linspace(0.0, 1.0, 4)),
        real(3),
        grad=(0,),
        only="jit",
        long=True,
    ),
    OpCase(
        "scipy.stats",
        lambda x: (jax.scipy.stats.norm.ppf(x), jax.scipy.stats.beta.logpdf(x, 2.0, 3.0), jax.scipy.stats.rankdata(x)),
        real(6, low=0.1, high=0.9),
        grad=(0,),
        only="jit",
    ),
)
