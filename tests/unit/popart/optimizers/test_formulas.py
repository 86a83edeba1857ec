"""Each optimizer equals its formula, step by step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.together import each
from tests.unit.popart.optimizers import reference
from tests.unit.popart.optimizers.reference import values
from tests.unit.popart.optimizers.running import BATCHES, START, assert_close, follows
from tilestep.popart.enums import AdamMode, AdaptiveMode, MeanReductionStrategy, ReductionType, SGDAccumulatorAndMomentum, WeightDecayMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import SGD, Adam, Adaptive

KINDS = each("const, count", [(True, 1), (False, 3)])  # whether values are constants, and how many microbatches an update has
DECAY_MODES = each("decay_mode", WeightDecayMode)
REDUCTIONS = {
    "sum": {"reduction": ReductionType.Sum},
    "mean": {"reduction": ReductionType.Mean, "mean_strategy": MeanReductionStrategy.Post},
    "running mean": {"reduction": ReductionType.Mean, "mean_strategy": MeanReductionStrategy.Running},
}


@KINDS
@each("kept", SGDAccumulatorAndMomentum)
@each("dampening, nesterov", [(0.0, False), (0.3, False), (0.0, True)])
def test_sgd_with_momentum(const: bool, count: int, kept: SGDAccumulatorAndMomentum, dampening: float, nesterov: bool) -> None:
    given = values(
        {
            "defaultLearningRate": 0.05,
            "defaultWeightDecay": 0.1,
            "defaultMomentum": 0.9,
            "defaultDampening": dampening,
            "defaultVelocityScaling": 0.25,
            "lossScaling": 8.0,
        },
        const=const,
    )
    optimizer = SGD({**given, "nesterov": (nesterov, True)}, accumulatorAndMomentum=kept)
    follows(reference.sgd(START, BATCHES[count], lr=0.05, wd=0.1, mm=0.9, dm=dampening, nesterov=nesterov), optimizer, BATCHES[count])


@pytest.mark.slow
@KINDS
@DECAY_MODES
@each("mode", AdamMode)
def test_adam(const: bool, count: int, decay_mode: WeightDecayMode, mode: AdamMode) -> None:
    given = {
        "defaultLearningRate": 0.05,
        "defaultWeightDecay": 0.1,
        "defaultBeta1": 0.8,
        "defaultBeta2": 0.95,
        "defaultEps": 1e-3,
        "defaultMaxWeightNorm": 2.0,
        "lossScaling": 8.0,
    }
    optimizer = Adam(values(given, const=const), mode, decay_mode)
    decoupled = decay_mode is WeightDecayMode.Decay
    numbers = {"lr": 0.05, "wd": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-3, "max_norm": 2.0}
    follows(reference.adam(START, BATCHES[count], mode=mode.name, decoupled=decoupled, **numbers), optimizer, BATCHES[count])


ADAPTIVE_MODES = [(mode, False) for mode in AdaptiveMode] + [(AdaptiveMode.RMSProp, True), (AdaptiveMode.CenteredRMSProp, True)]


@pytest.mark.slow
@KINDS
@DECAY_MODES
@each("momentum", [0.0, 0.7])
@each("mode, tf", ADAPTIVE_MODES)
def test_adaptive(const: bool, count: int, decay_mode: WeightDecayMode, momentum: float, mode: AdaptiveMode, tf: bool) -> None:
    given = {
        "defaultLearningRate": 0.02,
        "defaultWeightDecay": 0.1,
        "defaultAlpha": 0.9,
        "defaultMomentum": momentum,
        "defaultEps": 1e-2,
        "lossScaling": 8.0,
    }
    optimizer = Adaptive(
        {**values(given, const=const), "defaultMomentum": (momentum, const or not momentum)}, mode, decay_mode, rmsprop_tf_variant=tf
    )
    decoupled = decay_mode is WeightDecayMode.Decay
    numbers = {"lr": 0.02, "wd": 0.1, "a": 0.9, "mm": momentum, "eps": 1e-2, "tf": tf}
    follows(reference.adaptive(START, BATCHES[count], mode=mode.name, decoupled=decoupled, **numbers), optimizer, BATCHES[count])


@each("reduction", REDUCTIONS)
@each("name", ["plain", "Combined", "Separate", "Adam", "Adaptive"])
def test_microbatches_are_summed_or_averaged(reduction: str, name: str) -> None:
    batches, kind = BATCHES[3], "sum" if reduction == "sum" else "mean"
    if name == "Adam":
        optimizer = Adam({"defaultLearningRate": (0.05, True), "lossScaling": (8.0, True)})
        expected = reference.adam(START, batches, mode=name, decoupled=True, lr=0.05, wd=0, b1=0.9, b2=0.999, eps=1e-6, reduction=kind)
    elif name == "Adaptive":
        optimizer = Adaptive({"defaultLearningRate": (0.05, True), "lossScaling": (8.0, True)})
        expected = reference.adaptive(START, batches, mode="RMSProp", decoupled=True, lr=0.05, wd=0, a=0.99, mm=0, eps=1e-6, reduction=kind)
    else:
        momentum = 0.0 if name == "plain" else 0.9
        kept = SGDAccumulatorAndMomentum.Separate if name == "Separate" else SGDAccumulatorAndMomentum.Combined
        given = {"defaultLearningRate": (0.05, True), "defaultMomentum": (momentum, True), "lossScaling": (8.0, False)}
        optimizer = SGD(given, accumulatorAndMomentum=kept)
        expected = reference.sgd(START, batches, lr=0.05, mm=momentum, reduction=kind)
    follows(expected, optimizer, batches, **REDUCTIONS[reduction])


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
