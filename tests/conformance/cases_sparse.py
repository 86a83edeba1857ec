"""jax.experimental.sparse: the formats, and what can be done with them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse
from jax.experimental.sparse import linalg

from .case import OpCase, real

# Shared by rows; a quarter of the entries is zero.
MASK = np.arange(20).reshape(4, 5) % 4 != 0


def bcoo(x: jax.Array) -> Any:
    return sparse.BCOO.fromdense(x * MASK, nse=15)


def bcsr(x: jax.Array) -> Any:
    return sparse.BCSR.fromdense(x * MASK, nse=15)


def formats(x: jax.Array) -> Any:
    made = [kind.fromdense(x * MASK, nse=15) for kind in (sparse.COO, sparse.CSR, sparse.BCSR, sparse.BCOO)]
    return [m.todense() for m in made], [sparse.todense(m) for m in made[:1]]


def classic(x: jax.Array, v: jax.Array, m: jax.Array) -> Any:
    coo, csr = (kind.fromdense(x * MASK, nse=15) for kind in (sparse.COO, sparse.CSR))
    return coo @ v, coo @ m, csr @ v, csr @ m


def rearranged(x: jax.Array) -> Any:
    one = bcoo(x)
    twice = sparse.BCOO((jnp.concatenate([one.data, one.data]), jnp.concatenate([one.indices, one.indices])), shape=one.shape)
    return (
        one.T.todense(),
        one.sum_duplicates(nse=15).todense(),
        twice.sum_duplicates(nse=15).data,
        one.sort_indices().data,
        sparse.bcoo_extract(one, x),
    )


CASES = (
    OpCase("sparse formats", formats, real(4, 5), only="jit"),
    OpCase("bcoo dot", lambda x, y: bcoo(x) @ y, real(4, 5), real(5, 3), grad=(0, 1), only="jit"),
    OpCase(
        "bcoo dot sparse",
        lambda x, y: (bcoo(x) @ sparse.BCOO.fromdense(y, nse=15)).todense(),
        real(4, 5),
        real(5, 3),
        only="jit",
        long=True,
    ),
    OpCase("bcoo rearranged", rearranged, real(4, 5), only="jit"),
    OpCase(
        "bcoo dot, sampled",
        lambda x, y, at: sparse.bcoo_dot_general_sampled(x, y, at, dimension_numbers=(((1,), (0,)), ((), ()))),
        real(4, 5),
        real(5, 3),
        np.array([[0, 1], [3, 2]]),
        only="jit",
    ),
    OpCase("bcsr dot", lambda x, y: bcsr(x) @ y, real(4, 5), real(5, 3), only="jit"),
    OpCase("bcsr extract", lambda x: sparse.bcsr_extract(bcsr(x).indices, bcsr(x).indptr, x), real(4, 5), only="jit"),
    OpCase("coo and csr dot", classic, real(4, 5), real(5), real(5, 2), only="jit"),
    OpCase(
        "sparsify", lambda x, y: sparse.sparsify(lambda a, b: jnp.sin(a) @ b)(bcoo(x), y), real(4, 5), real(5, 3), only="jit", long=True
    ),
    OpCase(
        "spsolve",
        lambda b: linalg.spsolve(jnp.array([4.0, 1.0, 3.0, 5.0]), jnp.array([0, 1, 1, 2]), jnp.array([0, 2, 3, 4]), b),
        real(3),
    ),
)
