"""One row of conformance, and the data that rows are written with.

Both platforms compile the same StableHLO with the same compiler, so a row is expected to agree to the last bit.
A row that cannot says why in `why`, beside the tolerance that follows from it.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, kw_only=True)
class Draw:
    """An array to be drawn, equal at every run: uniform in [low, high), of any dtype."""

    shape: tuple[int, ...]
    dtype: Any
    low: float
    high: float

    def array(self, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if self.dtype == np.bool_:
            return rng.random(self.shape) < 0.5
        if jnp.issubdtype(self.dtype, jnp.integer):
            return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        values = rng.uniform(self.low, self.high, self.shape)
        if jnp.issubdtype(self.dtype, jnp.complexfloating):
            values = values + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(values).astype(self.dtype)


def real(*shape: int, dtype: Any = np.float32, low: float = -2.0, high: float = 2.0) -> Draw:
    return Draw(shape=shape, dtype=np.dtype(dtype), low=low, high=high)


def whole(*shape: int, dtype: Any = np.int32, low: int = -9, high: int = 10) -> Draw:
    return Draw(shape=shape, dtype=np.dtype(dtype), low=low, high=high)


def flags(*shape: int) -> Draw:
    return Draw(shape=shape, dtype=np.dtype(np.bool_), low=0, high=1)


def cplx(*shape: int, dtype: Any = np.complex64, low: float = -2.0, high: float = 2.0) -> Draw:
    return Draw(shape=shape, dtype=np.dtype(dtype), low=low, high=high)


class OpCase:
    """A function, its arguments, and how closely `ipu` has to follow the CPU platform.

    Args:
        name: of the row; unique.
        fn: called with the arguments; with `ipus` set, with that many devices (a list) before them.
        args: arrays, Draws (filled from the row's name) or pytrees and Python values, which are passed as they are.
        grad: positions of the arguments to differentiate; () if there is no derivative.
        rtol, atol: 0 demands equality to the bit; anything else needs a reason in `why`.
        x64: run with 64-bit types on.
        ipus: number of devices that the function spreads over; 0 for one, chosen by default device.
        only: "jit" for what JAX itself can't run eagerly, "eager" for what it can't trace.
        long: takes seconds to compile; runs in the long form of the tests only.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        grad: tuple[int, ...] = (),
        rtol: float = 0.0,
        atol: float = 0.0,
        why: str = "",
        x64: bool = False,
        ipus: int = 0,
        only: Literal["jit", "eager"] | None = None,
        long: bool = False,
    ) -> None:
        if bool(rtol or atol) != bool(why):
            raise ValueError(f"row {name!r}: a tolerance needs a reason, and a reason a tolerance")
        seed = zlib.crc32(name.encode())
        self.name = name
        self.fn = fn
        self.args = tuple(arg.array(seed + index) if isinstance(arg, Draw) else arg for index, arg in enumerate(args))
        self.grad = grad
        self.rtol = rtol
        self.atol = atol
        self.why = why
        self.x64 = x64
        self.ipus = ipus
        self.only = only
        self.long = long

    def __repr__(self) -> str:
        return self.name


def since(*version: int) -> bool:
    """Whether JAX is of that version, or newer: some rows are of what only newer ones have."""
    return jax.__version_info__ >= version


LAPACK = "LAPACK's blocking follows the alignment of its buffers, which differs from call to call"
COUNTED = "a loop whose trips depend on data gets a counter on ipu, and the compiler then rounds its body in another order"
