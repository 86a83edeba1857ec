"""A rule's state, and what the host may change of it."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.optimizers.reference import values
from tests.unit.popart.optimizers.running import BATCHES, START, assert_close, context, trained
from tilestep.popart.enums import (
    AdamMode,
    AdaptiveMode,
    DataType,
    MeanReductionStrategy,
    ReductionType,
    SGDAccumulatorAndMomentum,
    WeightDecayMode,
)
from tilestep.popart.exceptions import popart_exception, popart_internal_exception, popart_runtime_error
from tilestep.popart.optimizers import SGD, Adam, Adaptive, ClipNormSettings, Optimizer, OptimizerState

SEPARATE = {"accumulatorAndMomentum": SGDAccumulatorAndMomentum.Separate}
PARAMS = {"w": jnp.asarray(START, jnp.float32)}


def state_names(optimizer: Optimizer, **more: Any) -> set[str]:
    return set(optimizer.rule(context(PARAMS, **more)).init(PARAMS).tensors)


@each(
    "optimizer, alone, accumulated",
    [
        (SGD({}), "", "Accum"),
        (SGD({"defaultMomentum": (0.9, True)}), "Accl", "Accl"),
        (SGD({"defaultMomentum": (0.0, False)}), "Accl", "Accl"),
        (SGD({"defaultMomentum": (0.9, True)}, **SEPARATE), "Accl1", "Accl1 Accum"),
        (Adam({}), "Accl1 Accl2 Step", "Accl1 Accl2 Step Accum"),
        (Adam({}, AdamMode.LambNoBias), "Accl1 Accl2", "Accl1 Accl2 Accum"),
        (Adaptive({}), "Accl1", "Accl1 Accum"),
        (Adaptive({"defaultMomentum": (0.1, True)}, AdaptiveMode.AdaDelta), "Accl1 Accl2 Accl3", "Accl1 Accl2 Accl3 Accum"),
    ],
)
def test_state_has_the_originals_names(optimizer: Optimizer, alone: str, accumulated: str) -> None:
    def names(kinds: str) -> set[str]:
        return {f"{kind}___w" for kind in kinds.split()}

    assert state_names(optimizer) == names(alone)
    assert state_names(optimizer, accumulation_factor=3) == names(accumulated)
    assert state_names(optimizer, gradient_accumulation=True) == names(accumulated)


def test_nesterovs_momentum_keeps_the_gradient_beside_the_velocity() -> None:
    optimizer = SGD({"defaultMomentum": (0.9, True), "nesterov": (1, True)})
    assert state_names(optimizer) == {"Accl___w", "Accl___w_nesterovGrad"}


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (SGD({}), {}),
        (
            SGD(values({"defaultLearningRate": 0.5, "defaultWeightDecay": 0.25, "lossScaling": 4.0}, const=False)),
            {"scaledLearningRate0___default___FLOAT": 0.125, "weightDecayScaleFactor0___default___FLOAT": 0.875, "lossScaling_FLOAT": 4.0},
        ),
        (
            SGD({"defaultMomentum": (0.5, False), "defaultLearningRate": (0.25, False)}),
            {"scaledMomentum1___default___FLOAT": 0.5, "scaledLearningRate1___default___FLOAT": 0.25},
        ),
        (
            Adam(values({"defaultBeta1": 0.5, "defaultEps": 0.25, "lossScaling": 4.0}, const=False)),
            {
                "adamBeta1___default___FLOAT": 0.5,
                "adamEps___default___FLOAT": 0.25,
                "adamGradientScaling___default___FLOAT": 0.25,
                "lossScaling_FLOAT": 4.0,
            },
        ),
        (Adaptive(values({"defaultAlpha": 0.5}, const=False)), {"adaptiveAlpha___default___FLOAT": 0.5}),
    ],
)
def test_only_values_that_may_change_are_in_the_state(optimizer: Optimizer, expected: dict[str, float]) -> None:
    hyper = optimizer.rule(context(PARAMS)).init(PARAMS).hyper
    assert {name: float(value) for name, value in hyper.items()} == expected


def test_a_weight_with_values_of_its_own_has_tensors_of_its_own() -> None:
    params = {"v": jnp.ones(2), "w": jnp.ones(2)}
    optimizer = SGD({"defaultLearningRate": (0.5, False)})
    optimizer.insertSpecific("w", {"learningRate": (0.25, False)})
    rule = optimizer.rule(context(params))
    state = rule.init(params)
    assert set(state.hyper) == {
        f"{kind}___{of}" for kind in ("scaledLearningRate0", "weightDecayScaleFactor0") for of in ("default___FLOAT", "specific___w")
    }
    ones = {"v": jnp.ones(2), "w": jnp.ones(2)}
    new, _ = rule.update(rule.accumulate(state, ones), params)
    np.testing.assert_array_equal(new["v"], 0.5)
    np.testing.assert_array_equal(new["w"], 0.75)


def test_values_of_combined_sgd_lag_one_update() -> None:
    """The velocity is multiplied by the momentum of the time, right after an update. Separate takes the new momentum at once."""
    weights = {"w": jnp.zeros(1)}
    results: dict[SGDAccumulatorAndMomentum, float] = {}
    for kept in SGDAccumulatorAndMomentum:
        rule = SGD({"defaultMomentum": (0.5, False), "defaultLearningRate": (1.0, True)}, accumulatorAndMomentum=kept).rule(
            context(weights)
        )
        params, state = rule.update(rule.accumulate(rule.init(weights), {"w": jnp.ones(1)}), weights)
        new = SGD({"defaultMomentum": (0.25, False), "defaultLearningRate": (1.0, True)}, accumulatorAndMomentum=kept)
        state = rule.with_values(state, new)
        params, _ = rule.update(rule.accumulate(state, {"w": jnp.ones(1)}), params)
        results[kept] = float(params["w"][0])
    assert results[SGDAccumulatorAndMomentum.Combined] == -(1 + 1.5)
    assert results[SGDAccumulatorAndMomentum.Separate] == -(1 + 1.25)


@each(
    "old, new, message",
    [
        (
            SGD({}),
            SGD({"defaultLearningRate": (0.2, True)}),
            "Problem with learning rates. Default value is not a valid replacement. Values are",
        ),
        (SGD({}), SGD({"defaultLearningRate": (0.1, False)}), "Problem with learning rates. .*Can not replace a constant value with a non"),
        (SGD({}), SGD({"defaultMomentum": (0.5, True)}), "this does not require a velocity tensor, but other does"),
        (SGD({"defaultMomentum": (0.5, True)}), SGD({"defaultMomentum": (0.5, True)}, **SEPARATE), "this has SGDAccumulatorAndMomentum"),
        (
            SGD({"defaultMomentum": (0.5, True)}, **SEPARATE),
            SGD({"defaultMomentum": (0.5, True)}, accl1Type=DataType.FLOAT16, **SEPARATE),
            "this has SGDAccumulatorAndMomentum::Separate and sgd2Accl1Type UNDEFINED, but other has FLOAT16",
        ),
        (SGD({}), SGD({"lossScaling": (2.0, True)}), "Problem with loss scaling. Values are constant but do not match"),
        (SGD({}), SGD({"defaultVelocityScaling": (2.0, True)}), "Problem with velocity scalings"),
        (SGD({}), Adam({}), "Can not replace optimizer of type SGD with new optimizer of type Adam"),
        (SGD({}), SGD({}, [ClipNormSettings.clipAllWeights(1.0)]), "Clip norm settings do not match"),
        (
            SGD({}, [ClipNormSettings.clipAllWeights(2.0)]),
            SGD({}, [ClipNormSettings.clipAllWeights(1.0)]),
            "Clip norm settings at index 0 do not match",
        ),
        (Adam({}), Adam({}, AdamMode.Lamb), "Adam modes do not match"),
        (Adam({}), Adam({}, weight_decay_mode=WeightDecayMode.L2Regularization), "Weight decay modes do not match"),
        (Adam({}), Adam({"defaultBeta2": (0.5, True)}), "Problem with beta2s"),
        (Adaptive({}), Adaptive({}, AdaptiveMode.AdaDelta), "Adaptive modes do not match"),
        (Adaptive({}), Adaptive({}, weight_decay_mode=WeightDecayMode.L2Regularization), "Weight decay modes do not match"),
        (Adaptive({}), Adaptive({"defaultAlpha": (0.5, True)}), "Problem with alphas"),
        (
            SGD({}),
            SGD({"defaultDampening": (0.5, True)}),
            "weightDecayScaleFactor0|scaledLearningRate0___default___FLOAT is constant at 0.1",
        ),
    ],
)
def test_constants_are_not_replaced(old: Optimizer, new: Optimizer, message: str) -> None:
    rule = old.rule(context(PARAMS))
    with pytest.raises(popart_runtime_error, match=f"^New optimizer is not a valid replacement. {message}"):
        rule.with_values(rule.init(PARAMS), new)


def test_a_rule_keeps_the_values_of_its_optimizer() -> None:
    optimizer = SGD({"defaultLearningRate": (0.5, False)})
    rule = optimizer.rule(context(PARAMS))
    optimizer.insertSpecific("w", {})
    rule.with_values(rule.init(PARAMS), SGD({"defaultLearningRate": (0.25, False)}))


def test_types_of_the_state_are_those_that_the_program_asks_for() -> None:
    halves = {"w": PARAMS["w"].astype(jnp.float16)}

    def types(optimizer: Optimizer) -> dict[str, str]:
        state = optimizer.rule(context(halves, accumulation_factor=2)).init(halves)
        return {name.split("___")[0]: str(tensor.dtype) for name, tensor in state.tensors.items()}

    assert types(Adam({})) == {"Accum": "float16", "Accl1": "float32", "Accl2": "float32", "Step": "float32"}
    assert types(Adam({}, accum_type=DataType.FLOAT, accl1_type=DataType.FLOAT16))["Accl1"] == "float16"
    momentum = {"defaultMomentum": (0.9, True)}
    assert types(SGD(momentum, accumType=DataType.FLOAT, accl1Type=DataType.FLOAT, **SEPARATE)) == {"Accum": "float32", "Accl1": "float32"}
    adaptive = Adaptive(momentum, AdaptiveMode.CenteredRMSProp, accl2_type=DataType.FLOAT16)
    assert types(adaptive) == {"Accum": "float16", "Accl1": "float32", "Accl2": "float16", "Accl3": "float16"}


@pytest.mark.parametrize("changeable", [True, False])
@pytest.mark.parametrize("decay_mode", WeightDecayMode, ids=lambda mode: mode.name)
def test_the_loss_scaling_may_stay_in_the_moments(changeable: bool, decay_mode: WeightDecayMode) -> None:
    given = {"defaultWeightDecay": (0.1, True), "lossScaling": (8.0, not changeable), "defaultEps": (1e-3, True)}
    inside, state = trained(Adam(given, weight_decay_mode=decay_mode, scaled_optimizer_state=True), START, BATCHES[3])
    outside, plain = trained(Adam(given, weight_decay_mode=decay_mode), START, BATCHES[3])
    assert_close(inside, outside)
    np.testing.assert_allclose(state.tensors["Accl1___w"], 8 * plain.tensors["Accl1___w"], rtol=1e-4, atol=1e-5)


def test_moments_are_rescaled_when_the_loss_scaling_changes() -> None:
    """By the same ratio for both weights that share the loss scaling, and for the second moment too, as in the original."""
    params = {"v": jnp.ones(2), "w": jnp.ones(2)}
    rule = Adam({"lossScaling": (2.0, False)}, scaled_optimizer_state=True).rule(context(params))
    state = rule.init(params)
    assert float(state.tensors["PreviousLossScaling___default___FLOAT"]) == 2.0
    _, state = rule.update(rule.accumulate(state, params), params)
    before = state.tensors
    state = rule.with_values(state, Adam({"lossScaling": (8.0, False)}, scaled_optimizer_state=True))
    zero = {"v": jnp.zeros(2), "w": jnp.zeros(2)}
    _, state = rule.update(rule.accumulate(state, zero), params)
    assert float(state.tensors["PreviousLossScaling___default___FLOAT"]) == 8.0
    for id in params:
        np.testing.assert_allclose(state.tensors[f"Accl1___{id}"], 4 * 0.9 * before[f"Accl1___{id}"], rtol=1e-6)
        np.testing.assert_allclose(state.tensors[f"Accl2___{id}"], 4 * 0.999 * before[f"Accl2___{id}"], rtol=1e-6)


def test_a_running_mean_is_left_in_the_accumulator_and_a_sum_is_zeroed() -> None:
    def after(**more: Any) -> OptimizerState:
        return trained(SGD({}), START, BATCHES[3], **more)[1]

    running = after(reduction=ReductionType.Mean, mean_strategy=MeanReductionStrategy.Running)
    np.testing.assert_allclose(running.tensors["Accum___w"], BATCHES[3][-1].mean(0), rtol=1e-5, atol=1e-6)
    assert float(running.tensors["Counter___"]) == 0.0
    assert not np.any(np.asarray(after().tensors["Accum___w"]))


def test_nesterovs_gradient_is_not_divided_by_a_mean_at_the_end() -> None:
    """The original undoes the whole dampening factor there, the number of microbatches in it too."""
    rule = SGD(
        {"defaultMomentum": (0.5, True), "nesterov": (1, True), "defaultLearningRate": (1.0, True)},
        accumulatorAndMomentum=SGDAccumulatorAndMomentum.Separate,
    ).rule(context({"w": jnp.zeros(1)}, accumulation_factor=2, reduction=ReductionType.Mean))
    state = rule.init({"w": jnp.zeros(1)})
    for _ in range(2):
        state = rule.accumulate(state, {"w": jnp.ones(1)})
    new, state = rule.update(state, {"w": jnp.zeros(1)})
    np.testing.assert_array_equal(state.tensors["Accl1___w"], 1.0)
    np.testing.assert_array_equal(new["w"], -(2.0 + 0.5 * 1.0))


def test_other_types_of_weights_are_refused() -> None:
    with pytest.raises(popart_exception, match=r"^Unsupported data type for tensor w, int32"):
        SGD({}).rule(context({"w": jnp.ones(2, jnp.int32)}))
    with pytest.raises(popart_exception, match=r"^Unsupported data type for tensor w, DOUBLE"):
        Adam({}, accl1_type=DataType.DOUBLE).rule(context(PARAMS))


def test_a_missing_gradient_is_an_error() -> None:
    rule = SGD({}).rule(context(PARAMS))
    with pytest.raises(popart_internal_exception, match=r"^The gradient of w is missing; there are v"):
        rule.accumulate(rule.init(PARAMS), {"v": PARAMS["w"]})
