"""Two programs of a group that share weights: they agree on their layout, or the second pays for laying them out anew."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import tilestep
from tilestep.cost import relaid
from tilestep.figures.records import ProgramCycles
from tilestep.hints import program_group
from tilestep.machine import load_machine

EPOCHS = 3
WEIGHTS = (512, 2048)


def run(name: str | None, rows: int) -> ProgramCycles:
    """What an evaluation on `rows` takes that reads the weights of a training step on 64 rows; without a group they stream in each time."""

    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x @ weights))

    def step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, Any]:
        return weights - 1e-3 * jax.grad(loss)(weights, x), jnp.sum(x)

    train, evaluate = jax.jit(step, donate_argnums=0), jax.jit(lambda weights, x: loss(weights, x))
    device = jax.devices("ipu")[0]
    weights, x, y = (jax.device_put(jnp.ones(shape), device) for shape in (WEIGHTS, (64, 512), (rows, 512)))
    with tilestep.profile() as profile:
        for _ in range(EPOCHS):
            with contextlib.nullcontext() if name is None else program_group(name):
                weights, _ = train(weights, x)
                value = evaluate(weights, y)
        jax.block_until_ready(value)
    _, evaluated = profile.programs
    assert evaluated.runs == EPOCHS
    return evaluated.cycles


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "pays"), [(64, False), (1000, True)])
def test_an_evaluation_pays_where_its_batch_wants_the_weights_laid_out_otherwise(rows: int, pays: bool) -> None:
    spent = [cycles.compute + cycles.exchange + cycles.sync for cycles in (run(name, rows) for name in (f"layouts {rows}", None))]
    price = relaid(4 * WEIGHTS[0] * WEIGHTS[1], load_machine("bow-2000").ipu)
    assert spent[0] - spent[1] == (EPOCHS * price.cycles if pays else 0)
