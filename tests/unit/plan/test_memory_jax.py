"""Memory of small JAX programs, from the text that XLA makes of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.golden.clean_hlo import clean_hlo
from tilestep.machine import load_machine
from tilestep.plan import Program, lower
from tilestep.program import parse_hlo

MACHINE = load_machine("bow-2000")
ROWS = MACHINE.ipu.num_tiles  # a matrix of so many rows of 256 floats has 1,024 bytes on each tile
MATRIX = jax.ShapeDtypeStruct((ROWS, 256), jnp.float32)
TILE = 1024


def lowered(function: Any, *arguments: Any, donate: tuple[int, ...] = ()) -> Program:
    text = clean_hlo(jax.jit(function, donate_argnums=donate).lower(*arguments))
    return lower(parse_hlo(text), MACHINE, name="program", num_ipus=1)


def test_a_donated_argument_and_its_result_are_one() -> None:
    def update(state: jax.Array, change: jax.Array) -> jax.Array:
        return state - 0.1 * change

    kept, apart = lowered(update, MATRIX, MATRIX, donate=(0,)).memory, lowered(update, MATRIX, MATRIX).memory
    assert (kept.resident_bytes, kept.transient_bytes) == (TILE, TILE)
    assert (apart.resident_bytes, apart.transient_bytes) == (0, 2 * TILE)


@pytest.mark.parametrize("trips", [2, 50])
def test_what_a_loop_carries_is_there_once(trips: int) -> None:
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, trips, lambda _, carried: jnp.sin(carried) * 2 + 1, x)

    memory = lowered(loop, MATRIX).memory
    assert TILE <= memory.transient_bytes <= TILE + 64  # the counter beside it


def test_parts_add_up_and_what_is_alive_is_named() -> None:
    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x @ weights) ** 2)

    weights = jax.ShapeDtypeStruct((256, 512), jnp.float32)
    memory = lowered(jax.grad(loss), weights, MATRIX).memory
    assert sum(size for _, size in memory.by_kind) == memory.peak_bytes
    assert sum(size for _, size in memory.alive) == memory.resident_bytes + memory.transient_bytes
    assert memory.peak_step
    assert {"weights", "x"} & {name for name, _ in memory.alive}
