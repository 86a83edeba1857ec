"""What a pipeline returns of its inside on emulated IPUs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import Pipeline, gradient, parameter, watched

COUNT, WIDTH = 6, 16


def first(w: Any, x: Any) -> Any:
    return watched(jnp.tanh(watched(x @ w, "pre")), "h")


def plain_first(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w)


plain_first.__name__ = first.__name__


def last(w: Any, h: Any) -> Any:
    return ((h @ w) ** 2).sum()


def step(stage: Any, device: str, watch: Any, **options: Any) -> tuple[Any, Any]:
    """(what the second step gives, its profile)."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32) for _ in range(2)]
    x = rng.normal(size=(COUNT, 4, WIDTH)).astype(np.float32)
    pipeline = Pipeline(
        [stage, last], optax.sgd(0.1), COUNT, devices=jax.devices(device), program="stages", strict=False, watch=watch, **options
    )
    state = pipeline.init(weights)
    state, _ = pipeline.step(state, x)
    with tilestep.profile() as profile:
        _, given = pipeline.step(state, x)
        jax.tree.map(np.asarray, given)  # the host reads all of it
    return given, profile.profile


OPTIONS: list[Any] = [
    {"pipeline_schedule": "zero_bubble"},
    {"pipeline_schedule": "stale"},
    *(pytest.param(options, marks=pytest.mark.slow) for options in ({}, {"offload_activations": True})),
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_are_those_of_the_cpu(options: Any) -> None:
    watch: dict[Any, Any] = {"h": "all", "pre": "sum", gradient("h"): "all", gradient("pre"): "sum", parameter(1): "all"}
    given, _ = step(first, "ipu", watch, **options)
    expected, _ = step(first, "cpu", watch, device_mapping=[0, 0], **options)
    assert {device.platform for value in given.values.values() for device in value.devices()} == {"ipu"}
    for key, value in expected.values.items():
        np.testing.assert_allclose(given.values[key], value, rtol=1e-5, atol=1e-6)
