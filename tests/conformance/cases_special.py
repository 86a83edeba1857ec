"""Special functions of lax."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import COUNTED, OpCase, real
from .cases_elementwise import every_dtype, unary

PAIRS = [real(5, dtype=dtype, low=0.5, high=4.0) for dtype in (np.float32, np.float64) for _ in range(2)]
TRIPLES = [real(6, dtype=dtype, low=0.2, high=0.9) for dtype in (np.float32, np.float64) for _ in range(3)]


CASES = (
    *unary(lax.erf, complex_too=False),
    *unary(lax.erfc, complex_too=False),
    *unary(lax.erf_inv, -0.9, 0.9, complex_too=False),
    *unary(lax.lgamma, 0.3, 4.0, complex_too=False),
    *unary(lax.digamma, 0.3, 4.0, complex_too=False),
    *unary(lax.bessel_i0e, complex_too=False),
    *unary(lax.bessel_i1e, complex_too=False),
    *every_dtype("lax.igamma", lax.igamma, PAIRS, arity=2, long=True),
    *every_dtype("lax.igammac", lax.igammac, PAIRS, arity=2, differentiable=False, long=True),
    *every_dtype("lax.igamma_grad_a", lax.igamma_grad_a, PAIRS, arity=2, differentiable=False, long=True),
    *every_dtype("lax.random_gamma_grad", lax.random_gamma_grad, PAIRS, arity=2, differentiable=False, long=True),
    OpCase("lax.igammac, derivative", lax.igammac, *PAIRS[:2], grad=(1,), long=True),
    *every_dtype("lax.betainc", lax.betainc, TRIPLES, arity=3, differentiable=False, long=True),
    OpCase("lax.betainc, derivative", lax.betainc, *TRIPLES[:3], grad=(2,), rtol=2e-6, why=COUNTED, long=True),
    *every_dtype("lax.zeta", lambda x, q: lax.zeta(x + 1.5, q), PAIRS, arity=2, differentiable=False, long=True),
    *every_dtype("lax.polygamma", lambda n, x: lax.polygamma(lax.round(n), x), PAIRS, arity=2, differentiable=False, long=True),
    OpCase("lax.polygamma, derivative", lambda x: lax.polygamma(jnp.array([0.0, 1.0, 2.0, 3.0, 4.0]), x), PAIRS[0], grad=(0,)),
)
