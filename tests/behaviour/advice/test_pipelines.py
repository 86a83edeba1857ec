"""Gains of other cuts, of more microbatches and of another schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.behaviour.advice.fault import Fault, check, dry, of_kind
from tilestep.train import Pipeline

SAMPLES = 640
WIDTH = 128


def stage(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def repeated(params: Any, x: Any) -> Any:
    """The same parameters many times, so that they take little time to come."""
    return jax.lax.scan(lambda x, _: (stage(params, x), None), x, None, length=24)[0]


def trained(
    of_stage: Callable[..., Any], layers: Sequence[int], microbatches: int, batch: int, schedule: str = "grouped"
) -> Callable[[], Any]:
    def first(params: Any, x: Any) -> Any:
        return of_stage(params, jnp.tile(x, (1, WIDTH // 8)))

    def last(params: Any, x: Any) -> Any:
        return (of_stage(params, x) ** 2).mean()

    def program() -> Any:
        pipeline = Pipeline(
            [first, *[of_stage] * (len(layers) - 2), last],
            optax.sgd(1e-3),
            microbatches,
            devices=jax.devices("ipu"),
            device_mapping=list(range(len(layers))),
            pipeline_schedule=schedule,
        )
        state: Any = pipeline.init([[np.full((WIDTH, WIDTH), 0.01, np.float32)] * count for count in layers])
        for _ in range(SAMPLES // microbatches):
            state, _ = pipeline.step(state, np.ones((microbatches, batch, 8), np.float32))
        return state.params

    return program


ALIKE = (1, 1, 1, 1)
FAULTS = {
    "stages that differ": Fault(
        "pipeline",
        r"into stages of 12, 12, 12, 12 products in place of 6, 30, 6, 6$",
        trained(stage, (6, 30, 6, 6), 16, 16),
        trained(stage, (12, 12, 12, 12), 16, 16),
        0.25,
        dry=True,
    ),
    "few microbatches": Fault(
        "bubbles",
        r"^use 32 microbatches in place of 8",
        trained(repeated, ALIKE, 8, 256),
        trained(repeated, ALIKE, 32, 256),
        0.25,
        dry=True,
    ),
    "one microbatch after the other": Fault(
        "bubbles",
        "^use pipeline_schedule='grouped'",
        trained(repeated, ALIKE, 8, 16, "sequential"),
        trained(repeated, ALIKE, 8, 16),
        0.25,
        dry=True,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_a_schedule_that_waits_in_between_is_not_told_to_have_more_microbatches() -> None:
    """Forward and backward of the schedule 'interleaved' wait for each other at each microbatch, however many there are."""
    assert of_kind(dry(trained(repeated, ALIKE, 8, 16, "interleaved")), "bubbles") == []
