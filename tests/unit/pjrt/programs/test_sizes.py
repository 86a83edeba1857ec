"""Arrays that XLA cannot name: refused with the bytes that a tile would need."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tilestep.machine import load_machine
from tilestep.pjrt.programs.sizes import refuse_too_large

IPU = load_machine("bow-2000").ipu


def module(dtype: Any, *dims: int) -> Any:
    return jax.jit(lambda x: x + x).lower(jax.ShapeDtypeStruct(dims, dtype)).compiler_ir()


@pytest.mark.parametrize(
    ("dtype", "dims", "ipus", "needed"),
    [
        (jnp.float32, (1 << 31, 1 << 31), 1, "12,531,755,484,857,033"),  # 2^64 / 1,472, rounded up
        (jnp.float32, (1 << 31, 1 << 31), 4, "3,132,938,871,214,259"),
        (jnp.complex64, (1 << 60,), 1, "6,265,877,742,428,517"),  # 2^63 / 1,472
        (jnp.float32, (1 << 40, 1 << 40), 1, "3,285,124,509,822,361,887,789"),  # 2^82 / 1,472
    ],
)
def test_an_array_of_2_to_the_63_bytes_is_out_of_memory(dtype: Any, dims: tuple[int, ...], ipus: int, needed: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^RESOURCE_EXHAUSTED: TileMemoryError: tile 0 needs {needed} B in superstep"):
        refuse_too_large(module(dtype, *dims), ipus, IPU)


def test_a_smaller_array_is_left_to_the_planner() -> None:
    refuse_too_large(module(jnp.float32, (1 << 61) - 1), 1, IPU)
    refuse_too_large(module(jnp.int8, 1 << 62), 1, IPU)
