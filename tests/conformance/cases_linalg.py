"""Decompositions and solvers: LAPACK's results, sign and order included, since both platforms call the same one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import LAPACK, OpCase, cplx, real

SIZE = 4
CLOSE: dict[str, Any] = {"rtol": 2e-4, "atol": 2e-4, "why": LAPACK}
LINALG_TYPES = (np.float32, np.float64, np.complex64, np.complex128)


def positive(x: jax.Array) -> jax.Array:
    return x @ jnp.swapaxes(x.conj(), -1, -2) + SIZE * jnp.eye(SIZE, dtype=x.dtype)


def symmetric(x: jax.Array) -> jax.Array:
    return (x + jnp.swapaxes(x.conj(), -1, -2)) / 2


def solver(name: str, fn: Callable[..., Any], *, differentiable: bool = True, operands: int = 1) -> tuple[OpCase, OpCase]:
    """Two rows: `fn` on a batch of float32 matrices, and on all four types in one jitted program."""
    batch = [real(2, SIZE, SIZE) for _ in range(operands)]
    draws = [
        cplx(SIZE, SIZE, dtype=t) if np.dtype(t).kind == "c" else real(SIZE, SIZE, dtype=t) for t in LINALG_TYPES for _ in range(operands)
    ]
    grad = tuple(range(operands)) if differentiable else ()

    def every(*args: jax.Array) -> list[Any]:
        return [fn(*args[i : i + operands]) for i in range(0, len(args), operands)]

    return (
        OpCase(name, fn, *batch, grad=grad, **CLOSE),
        OpCase(
            f"{name}, every dtype", every, *draws, grad=tuple(range(len(draws))) if differentiable else (), x64=True, only="jit", **CLOSE
        ),
    )


def householder(x: jax.Array) -> jax.Array:
    packed, taus = jnp.linalg.qr(x, mode="raw")
    return lax.linalg.householder_product(jnp.swapaxes(packed, -1, -2), taus)


def reflect(x: jax.Array, y: jax.Array) -> jax.Array:
    packed, taus = jnp.linalg.qr(x, mode="raw")
    return lax.linalg.ormqr(jnp.swapaxes(packed, -1, -2), taus, y)


def tridiagonal_solve(x: jax.Array, b: jax.Array) -> jax.Array:
    below = x[..., 0].at[..., 0].set(0)
    above = x[..., 1].at[..., -1].set(0)
    return lax.linalg.tridiagonal_solve(below, x[..., 2] + 2 * SIZE, above, b)


CASES = (
    *solver("cholesky", lambda x: lax.linalg.cholesky(positive(x))),
    *solver("qr", lambda x: lax.linalg.qr(x, full_matrices=False)),
    *solver("svd", lambda x: jnp.linalg.svd(x, full_matrices=False, compute_uv=False)),
    *solver("svd with vectors", lambda x: jnp.linalg.svd(x, full_matrices=False), differentiable=False),
    *solver("eigh", lambda x: lax.linalg.eigh(symmetric(x))[1]),
    *solver("eigh with vectors", lambda x: lax.linalg.eigh(symmetric(x)), differentiable=False),
    *solver("eig", lambda x: lax.linalg.eig(x)[0], differentiable=False),
    *solver("lu", lambda x: lax.linalg.lu(x)),
    *solver(
        "triangular_solve", lambda a, b: lax.linalg.triangular_solve(a + SIZE * jnp.eye(SIZE, dtype=a.dtype), b, lower=True), operands=2
    ),
    *solver("solve", lambda a, b: jnp.linalg.solve(positive(a), b), operands=2),
    *solver("hessenberg", lambda x: lax.linalg.hessenberg(x), differentiable=False),
    *solver("schur", lambda x: lax.linalg.schur(x), differentiable=False),
    *solver("tridiagonal", lambda x: lax.linalg.tridiagonal(symmetric(x)), differentiable=False),
    *solver("householder_product", householder, differentiable=False),
    *solver("ormqr", reflect, operands=2, differentiable=False),
    OpCase("tridiagonal_solve", tridiagonal_solve, real(6, 3), real(6, 2), grad=(0, 1), **CLOSE),
    OpCase("qr with pivots", lambda x: lax.linalg.qr(x, pivoting=True), real(5, SIZE), **CLOSE),
    OpCase("eigenvectors", jnp.linalg.eig, real(SIZE, SIZE), **CLOSE),
    OpCase("lu_pivots_to_permutation", lambda x: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 5), real(2, 5, 5), **CLOSE),
    OpCase(
        "symmetric_product",
        lambda a, c: lax.linalg.symmetric_product(a, c),
        real(SIZE, 6),
        real(SIZE, SIZE),
        only="jit",
        **CLOSE,
    ),
    OpCase(
        "cholesky_update",
        lambda x, v: lax.linalg.cholesky_update(lax.linalg.cholesky(positive(x)).T, v),
        real(SIZE, SIZE),
        real(SIZE),
        **CLOSE,
    ),
    OpCase(
        "det, inv, slogdet",
        lambda x: (jnp.linalg.det(x), jnp.linalg.inv(x), jnp.linalg.slogdet(x)),
        real(SIZE, SIZE),
        grad=(0,),
        only="jit",
        **CLOSE,
    ),
    OpCase(
        "scipy.sparse.linalg.cg and gmres",
        lambda x, b: [getattr(jax.scipy.sparse.linalg, n)(positive(x), b)[0] for n in ("cg", "gmres", "bicgstab")],
        real(SIZE, SIZE),
        real(SIZE),
        long=True,
        only="jit",
        **CLOSE,
    ),
    OpCase("a singular matrix", lambda x: (jnp.linalg.cholesky(-x @ x.T), jnp.linalg.inv(x * 0)), real(3, 3), only="jit"),
)
