"""Optimizers as optax transformations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.popart.optimizers import reference
from tests.unit.popart.optimizers.running import BATCHES, START, assert_close
from tilestep.popart.enums import ReductionType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import SGD


def trained(transformation: optax.GradientTransformation, gradients: np.ndarray) -> np.ndarray:
    params = {"layer": {"w": jnp.asarray(START, jnp.float32)}}

    def call(carry: Any, gradient: jax.Array) -> Any:
        params, state = carry
        steps, state = transformation.update({"layer": {"w": gradient}}, state, params)
        params = optax.apply_updates(params, steps)
        return (params, state), params["layer"]["w"]

    run = jax.jit(lambda first, all: jax.lax.scan(call, first, all)[1])
    return np.asarray(run((params, transformation.init(params)), jnp.asarray(gradients, jnp.float32)))


def test_with_accumulation_some_calls_change_nothing() -> None:
    optimizer = SGD({"defaultMomentum": (0.9, True)})
    calls = BATCHES[3].reshape(-1, 3, 4)
    actual = trained(optimizer.as_optax(accumulation_factor=3, reduction=ReductionType.Mean), calls)
    np.testing.assert_array_equal(actual[1], np.asarray(START, np.float32))
    expected = reference.sgd(START, BATCHES[3], lr=0.1, mm=0.9, reduction="mean")
    assert_close(actual[2::3], np.stack(list(expected)))


def test_a_weight_is_named_by_its_path() -> None:
    optimizer = SGD({"defaultLearningRate": (0.1, True)})
    optimizer.insertSpecific("layer/w", {"learningRate": (0.5, True)})
    actual = trained(optimizer.as_optax(), BATCHES[1][:, 0])
    assert_close(actual, np.stack(list(reference.sgd(START, BATCHES[1], lr=0.5))))


def test_it_chains_with_optaxs_own() -> None:
    chain = optax.chain(optax.scale(0.5), SGD({"defaultLearningRate": (0.2, True)}).as_optax())
    assert_close(trained(chain, BATCHES[1][:, 0]), np.stack(list(reference.sgd(START, BATCHES[1], lr=0.1))))


def test_it_needs_the_parameters() -> None:
    transformation = SGD({}).as_optax()
    state = transformation.init({"w": jnp.zeros(1)})
    with pytest.raises(popart_exception, match=r"needs the parameters"):
        transformation.update({"w": jnp.zeros(1)}, state)
