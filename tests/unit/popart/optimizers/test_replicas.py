"""Replicas: their gradients are summed or averaged, where the original does so."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.together import compiled, each
from tests.unit.popart.optimizers import reference
from tests.unit.popart.optimizers.running import START, UPDATES, assert_close
from tilestep.popart.enums import MeanReductionStrategy, ReductionType, SGDAccumulatorAndMomentum
from tilestep.popart.optimizers import SGD, Adam, Adaptive, Optimizer, UpdateContext

REPLICAS = 2
NUMBERS = {"lr": 0.05, "wd": 0.1}
GIVEN = {"defaultLearningRate": (0.05, False), "defaultWeightDecay": (0.1, True), "lossScaling": (8.0, False)}


def optimizers() -> dict[str, tuple[Optimizer, Any]]:
    momentum = {**GIVEN, "defaultMomentum": (0.9, True)}
    return {
        "plain": (SGD(GIVEN), lambda w, g, kind: reference.sgd(w, g, **NUMBERS, reduction=kind)),
        "Combined": (SGD(momentum), lambda w, g, kind: reference.sgd(w, g, **NUMBERS, mm=0.9, reduction=kind)),
        "Separate": (
            SGD(momentum, accumulatorAndMomentum=SGDAccumulatorAndMomentum.Separate),
            lambda w, g, kind: reference.sgd(w, g, **NUMBERS, mm=0.9, reduction=kind),
        ),
        "Adam": (
            Adam(GIVEN),
            lambda w, g, kind: reference.adam(w, g, mode="Adam", decoupled=True, b1=0.9, b2=0.999, eps=1e-6, **NUMBERS, reduction=kind),
        ),
        "Adaptive": (
            Adaptive(GIVEN),
            lambda w, g, kind: reference.adaptive(w, g, mode="RMSProp", decoupled=True, a=0.99, mm=0, eps=1e-6, **NUMBERS, reduction=kind),
        ),
    }


@pytest.mark.slow
@each("reduction", ["sum", "mean", "running"])
@each("count", [1, 3])
@each("name", ["plain", "Combined", "Separate", "Adam", "Adaptive"])
def test_replicas_train_as_one_with_all_gradients(name: str, count: int, reduction: str) -> None:
    optimizer, expected = optimizers()[name]
    batches = np.random.default_rng(7).normal(size=(REPLICAS, UPDATES, count, 3, 4))
    rule = optimizer.rule(
        UpdateContext(
            params={"w": jax.ShapeDtypeStruct((3, 4), jnp.float32)},
            accumulation_factor=count,
            replication_factor=REPLICAS,
            reduction=ReductionType.Sum if reduction == "sum" else ReductionType.Mean,
            mean_strategy=MeanReductionStrategy.Running if reduction == "running" else MeanReductionStrategy.Post,
            reduce=lambda array: jax.lax.psum(array, "replicas"),
        )
    )

    def batch(carry: Any, gradients: jax.Array) -> Any:
        params, state = carry
        for gradient in gradients:
            state = rule.accumulate(state, {"w": gradient * rule.loss_scale(state)})
        params, state = rule.update(state, params)
        return (params, state), params["w"]

    def replicas(batches: Any) -> Any:
        params = {"w": jnp.asarray(START, jnp.float32)}
        first = (params, rule.init(params))
        return jax.vmap(lambda all: jax.lax.scan(batch, first, all)[1], axis_name="replicas")(batches)

    together = np.concatenate(list(batches), axis=1)
    wanted = np.stack(list(expected(START, together, "sum" if reduction == "sum" else "mean")))

    def check(weights: Any) -> None:
        np.testing.assert_array_equal(weights[0], weights[1])
        assert_close(np.asarray(weights[0]), wanted)

    compiled(replicas, batches.astype(np.float32), check)
