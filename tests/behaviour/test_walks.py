"""The walks over reports that programs for PopVision's library did, in this reader's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tilestep.figures.reader import OnTileExecute, ProgramVisitor, Report


def layer(weights: Any, x: Any) -> Any:
    return x + jnp.tanh(x @ weights) @ weights.T


def recorded(folder: Path) -> Report:
    def loss(weights: Any, x: Any) -> Any:
        for each in weights:
            x = layer(each, x)
        return x.sum()

    step = jax.jit(jax.grad(loss))
    with tilestep.profile(folder), jax.default_device(jax.devices("ipu")[0]):
        for _ in range(3):
            step([np.ones((32, 256), np.float32)] * 4, np.ones((1024, 32), np.float32))[0].block_until_ready()
    return tilestep.open_report(folder)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return recorded(tmp_path_factory.mktemp("report"))


@pytest.mark.slow
def test_a_visitor_sees_the_program_of_each_step(report: Report) -> None:
    class Names(ProgramVisitor):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_on_tile_execute(self, node: OnTileExecute) -> None:
            self.seen.append(node.name)

    visitor = Names()
    steps = list(report.execution.steps)
    for step in steps:
        step.program.accept(visitor)
    assert visitor.seen == [step.program.name for step in steps if isinstance(step.program, OnTileExecute)]
    assert visitor.seen


@pytest.mark.slow
def test_the_memory_of_each_tile_is_that_of_the_plan_at_the_fullest(report: Report) -> None:
    fullest = max(tile.memory.total.including_gaps for tile in report.compilation.tiles)
    assert fullest == max(program["peak_tile_bytes"] for program in report.profile["programs"])
