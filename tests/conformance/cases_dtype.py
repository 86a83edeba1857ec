"""Every type that JAX has on the CPU, the narrow ones included: put, computed with, converted and read."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import OpCase

FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
NARROW_INTEGERS = ("int2", "int4", "uint2", "uint4")
WIDE = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
NUMBERS = np.array([0, 1, 1, 2, 0.5, 1, 0.25, 2], np.float32)


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def moved(x: jax.Array) -> Any:
    """What every type can do: lie in memory, be rearranged, converted and compared."""
    back = x.astype(np.float32).astype(x.dtype) if not jnp.iscomplexobj(x) else x.astype(np.complex64).astype(x.dtype)
    return x.reshape(2, 4).T, x[::-1], x[np.array([3, 1])], back, x == x[::-1]


def computed(x: jax.Array) -> Any:
    return x + x, x * x, jnp.where(x > x[1], x, x[1]), x.sum(), lax.sort(x), x.reshape(2, 4) @ x.reshape(4, 2)


def computed_integer(x: jax.Array) -> Any:
    return (
        x + x,
        x * x,
        x - 1,
        jnp.where(x > x[1], x, x[1]),
        lax.max(x, x[::-1]),
        x.astype(np.int8).reshape(2, 4) @ x.astype(np.int8).reshape(4, 2),
    )


def row(name: str, fn: Callable[..., Any], what: str) -> OpCase:
    return OpCase(f"{name}, {what}", fn, NUMBERS.astype(dtype(name)), x64=True, only="jit")


CASES = (
    *(row(name, moved, "moved") for name in (*WIDE, *FLOAT8, "float4_e2m1fn", *NARROW_INTEGERS)),
    *(row(name, computed, "computed") for name in (*WIDE[1:], *FLOAT8[:-1])),
    *(row(name, computed_integer, "computed") for name in NARROW_INTEGERS),
    OpCase(
        "narrow floats at their edges",
        lambda x: [x.astype(dtype(name)).astype(np.float32) for name in FLOAT8],
        np.array([1e-9, -1e9, 447, 449, 57344, np.nan, -0.0, 0.3], np.float32),
    ),
    OpCase(
        "narrow integers wrap",
        lambda x: [x.astype(dtype(name)).astype(np.int32) for name in NARROW_INTEGERS],
        np.arange(-9, 20, dtype=np.int32),
    ),
    OpCase(
        "float8 matmul",
        lambda x: lax.dot(x.astype(jnp.float8_e4m3fn), x.astype(jnp.float8_e4m3fn).T, preferred_element_type=np.float32),
        NUMBERS.reshape(2, 4),
        only="jit",
    ),
    OpCase(
        "concatenation",
        lambda *xs: [jnp.concatenate([x, x]) for x in xs],
        *[NUMBERS.astype(dtype(n)) for n in (*WIDE, *FLOAT8)],
        x64=True,
        only="jit",
    ),
    OpCase("64-bit values are narrowed without x64", lambda x, n: (x, n, x * n), np.arange(4, dtype=np.float64), np.arange(4)),
    OpCase(
        "64-bit values are kept with x64",
        lambda x, n: (x, n, x * n, x.sum(), jnp.arange(3)),
        np.arange(4, dtype=np.float64) + 1e-12,
        np.arange(4) + 2**40,
        x64=True,
    ),
)
