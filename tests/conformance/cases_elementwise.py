"""Element by element: every unary, binary and ternary operation of lax, at every dtype it takes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import Draw, OpCase, cplx, flags, real, whole

# The first of each is what a row runs at in eager mode.
FLOATS = (np.float32, np.float16, jnp.bfloat16, np.float64)
COMPLEX = (np.complex64, np.complex128)
SIGNED = (np.int32, np.int8, np.int16, np.int64)
UNSIGNED = (np.uint32, np.uint8, np.uint16, np.uint64)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38], np.float32)


def each(op: Callable[..., Any], arity: int = 1) -> Callable[..., Any]:
    """`op` on consecutive groups of `arity` arguments: one program for all dtypes."""
    return lambda *args: [op(*args[i : i + arity]) for i in range(0, len(args), arity)]


def every_dtype(
    name: str,
    op: Callable[..., Any],
    draws: Sequence[Draw],
    *,
    special: Sequence[np.ndarray] = (),
    arity: int = 1,
    differentiable: bool = True,
    long: bool = False,
) -> tuple[OpCase, OpCase]:
    """Two rows: `op` on the first group of `draws`, and on every group (and on `special`) in one jitted program; that one may be `long`."""
    grad = tuple(i for i, draw in enumerate(draws) if jnp.issubdtype(draw.dtype, jnp.inexact)) if differentiable else ()
    first = tuple(i for i in grad if i < arity)
    return (
        OpCase(name, op, *draws[:arity], grad=first),
        OpCase(f"{name}, every dtype", each(op, arity), *draws, *special, grad=grad, x64=True, only="jit", long=long),
    )


def floats(low: float = -2.0, high: float = 2.0, *, arity: int = 1) -> list[Draw]:
    return [real(3, 5, dtype=dtype, low=low, high=high) for dtype in FLOATS for _ in range(arity)]


def integers(dtypes: Sequence[Any] = SIGNED + UNSIGNED, *, low: int = 0, high: int = 100, arity: int = 1) -> list[Draw]:
    return [whole(4, 6, dtype=dtype, low=low, high=high) for dtype in dtypes for _ in range(arity)]


def complexes(*, arity: int = 1) -> list[Draw]:
    return [cplx(3, 5, low=0.2, high=0.8) for _ in range(arity)]


def unary(op: Callable[..., Any], low: float = -2.0, high: float = 2.0, *, complex_too: bool = True) -> tuple[OpCase, ...]:
    draws = floats(low, high) + (complexes() if complex_too else [])
    return every_dtype(f"lax.{op.__name__}", op, draws, special=[SPECIAL])


def binary(op: Callable[..., Any], low: float = 0.3, high: float = 2.0, *, complex_too: bool = True) -> tuple[OpCase, ...]:
    draws = floats(low, high, arity=2) + (complexes(arity=2) if complex_too else [])
    return every_dtype(f"lax.{op.__name__}", op, draws, special=[SPECIAL, SPECIAL[::-1].copy()], arity=2)


def of_integers(op: Callable[..., Any], arity: int) -> tuple[OpCase, ...]:
    return every_dtype(f"lax.{op.__name__} of integers", op, integers(low=1, arity=arity), arity=arity)


CASES = (
    *unary(lax.abs, complex_too=True),
    *unary(lax.neg),
    *unary(lax.sign),
    *unary(lax.exp),
    *unary(lax.exp2),
    *unary(lax.expm1),
    *unary(lax.log, 0.1),
    *unary(lax.log1p, -0.9),
    *unary(lax.sqrt, 0.1),
    *unary(lax.rsqrt, 0.1),
    *unary(lax.square),
    *unary(lax.reciprocal, 0.1),
    *unary(lax.tanh),
    *unary(lax.logistic),
    *unary(lax.sin),
    *unary(lax.cos),
    *unary(lax.tan, -1.0, 1.0),
    *unary(lax.asin, -0.9, 0.9),
    *unary(lax.acos, -0.9, 0.9),
    *unary(lax.atan),
    *unary(lax.sinh),
    *unary(lax.cosh),
    *unary(lax.asinh),
    *unary(lax.acosh, 1.1, 3.0),
    *unary(lax.atanh, -0.9, 0.9),
    *unary(lax.cbrt, 0.1, complex_too=False),
    *unary(lax.floor, complex_too=False),
    *unary(lax.ceil, complex_too=False),
    *every_dtype("lax.round", lambda x: [lax.round(x, mode) for mode in lax.RoundingMethod], floats()),
    *every_dtype("lax.is_finite", lax.is_finite, floats(), differentiable=False),
    *every_dtype("lax.integer_pow", lambda x: (x**0, x**1, x**2, x**3, x**5, x**-2), floats(0.5) + complexes()),
    *every_dtype(
        "lax.abs, sign, neg and square of integers", lambda x: (lax.abs(x), lax.sign(x), -x, lax.square(x)), integers(SIGNED, low=-9)
    ),
    *every_dtype("lax.real, imag, conj", lambda z: (lax.real(z), lax.imag(z), lax.conj(z)), [cplx(5, dtype=dtype) for dtype in COMPLEX]),
    *every_dtype("lax.complex", lax.complex, [real(5, dtype=dtype) for dtype in (np.float32, np.float64) for _ in range(2)], arity=2),
    OpCase("lax.conj of a real", lambda x: lax.conj(x), real(4), grad=(0,)),
    *binary(lax.add),
    *binary(lax.sub),
    *binary(lax.mul),
    *binary(lax.div),
    *binary(lax.rem, complex_too=False),
    *binary(lax.max, complex_too=False),
    *binary(lax.min, complex_too=False),
    OpCase("lax.max and lax.min of complex numbers", lambda a, b: (lax.max(a, b), lax.min(a, b)), *complexes(arity=2)),
    *binary(lax.pow),
    *binary(lax.atan2, complex_too=True),
    *every_dtype("lax.nextafter", lax.nextafter, floats(arity=2), arity=2, differentiable=False),
    OpCase("lax.pow of an integer exponent", lax.pow, real(4, low=0.5), whole(4)),
    *(row for op in (lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.mulhi) for row in of_integers(op, 2)),
    *(row for op in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor) for row in of_integers(op, 2)),
    *(row for op in (lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical) for row in of_integers(op, 2)),
    *(row for op in (lax.bitwise_not, lax.population_count, lax.clz) for row in of_integers(op, 1)),
    OpCase(
        "lax.bitwise of booleans",
        lambda a, b: (a & b, a | b, a ^ b, ~a, lax.max(a, b), lax.min(a, b)),
        flags(20),
        flags(20),
    ),
    *every_dtype(
        "comparisons",
        lambda a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b),
        [*floats(arity=2), *integers(high=3, arity=2)],
        arity=2,
        differentiable=False,
    ),
    OpCase(
        "comparisons with NaN and zeros",
        lambda a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b),
        np.array([0, 1, np.nan, np.inf, -0.0], np.float32),
        np.array([-0.0, 1, np.nan, -np.inf, 0.0], np.float32),
    ),
    OpCase(
        "comparisons in total order",
        lambda a, b: (lax.le_to_p.bind(a, b), lax.lt_to_p.bind(a, b)),
        np.array([0, 1, np.nan, np.inf, -0.0], np.float32),
        np.array([-0.0, 1, np.nan, -np.inf, 0.0], np.float32),
    ),
    OpCase("comparisons of booleans", lambda a, b: (a == b, a != b, a < b), flags(9), flags(9)),
    OpCase("comparisons of complex numbers", lambda a, b: (a == b, a != b), *complexes(arity=2)),
    OpCase("lax.select", lax.select, flags(3, 5), real(3, 5), real(3, 5), grad=(1, 2)),
    OpCase("lax.select_n", lax.select_n, whole(12, low=0, high=3), real(12), real(12), real(12), grad=(1, 3)),
    *every_dtype("lax.clamp", lax.clamp, [*floats(arity=3), *integers(SIGNED, arity=3)], arity=3),
    OpCase("lax.clamp by scalars", lambda x: lax.clamp(-0.5, x, 0.7), real(3, 5), grad=(0,)),
    OpCase(
        "lax.reduce_precision",
        lambda x: (lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 4, 3)),
        real(40, low=-9, high=9),
        grad=(0,),
    ),
    OpCase("weak types and broadcasting", lambda x, n: x * 2 + n - 1.5 / (x + 3) ** 2, real(3, 1), whole(4), grad=(0,)),
)
