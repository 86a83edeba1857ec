"""Each optimizer equals its formula, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.popart.optimizers import reference
from tests.unit.popart.optimizers.reference import values
from tests.unit.popart.optimizers.running import BATCHES, START, assert_close, trained
from tilestep.popart.enums import AdamMode, AdaptiveMode, MeanReductionStrategy, ReductionType, SGDAccumulatorAndMomentum, WeightDecayMode
from tilestep.popart.optimizers import SGD, Adam, Adaptive, ConstSGD

# Whether values are constants, and how many microbatches an update has. The long tests cross both.
KINDS = pytest.mark.parametrize(
    ("const", "count"),
    [(True, 1), (False, 3), pytest.param(True, 3, marks=pytest.mark.slow), pytest.param(False, 1, marks=pytest.mark.slow)],
    ids=["const-1", "changeable-3", "const-3", "changeable-1"],
)
DECAY_MODES = pytest.mark.parametrize("decay_mode", WeightDecayMode, ids=lambda mode: mode.name)
REDUCTIONS = {
    "sum": {"reduction": ReductionType.Sum},
    "mean": {"reduction": ReductionType.Mean, "mean_strategy": MeanReductionStrategy.Post},
    "running mean": {"reduction": ReductionType.Mean, "mean_strategy": MeanReductionStrategy.Running},
}


@KINDS
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd_without_momentum(const: bool, count: int, decay: float) -> None:
    given = values({"defaultLearningRate": 0.05, "defaultWeightDecay": decay, "defaultDampening": 0.2, "lossScaling": 8.0}, const=const)
    optimizer = SGD({**given, "defaultMomentum": (0.0, True)})
    actual, _ = trained(optimizer, START, BATCHES[count])
    assert_close(actual, np.stack(list(reference.sgd(START, BATCHES[count], lr=0.05, wd=decay, dm=0.2))))


@KINDS
@pytest.mark.parametrize("kept", SGDAccumulatorAndMomentum, ids=lambda kept: kept.name)
@pytest.mark.parametrize(("dampening", "nesterov"), [(0.0, False), (0.3, False), (0.0, True)], ids=["plain", "dampened", "nesterov"])
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
    actual, _ = trained(optimizer, START, BATCHES[count])
    expected = reference.sgd(START, BATCHES[count], lr=0.05, wd=0.1, mm=0.9, dm=dampening, nesterov=nesterov)
    assert_close(actual, np.stack(list(expected)))


def test_const_sgd() -> None:
    actual, _ = trained(ConstSGD(0.05, 0.1, 4.0), START, BATCHES[1])
    assert_close(actual, np.stack(list(reference.sgd(START, BATCHES[1], lr=0.05, wd=0.1))))


@KINDS
@DECAY_MODES
@pytest.mark.parametrize("mode", AdamMode, ids=lambda mode: mode.name)
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
    actual, _ = trained(Adam(values(given, const=const), mode, decay_mode), START, BATCHES[count])
    decoupled = decay_mode is WeightDecayMode.Decay
    numbers = {"lr": 0.05, "wd": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-3, "max_norm": 2.0}
    assert_close(actual, np.stack(list(reference.adam(START, BATCHES[count], mode=mode.name, decoupled=decoupled, **numbers))))


ADAPTIVE_MODES = [(mode, False) for mode in AdaptiveMode] + [(AdaptiveMode.RMSProp, True), (AdaptiveMode.CenteredRMSProp, True)]


@KINDS
@DECAY_MODES
@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize(("mode", "tf"), ADAPTIVE_MODES, ids=lambda value: getattr(value, "name", "tf" if value else "popart"))
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
    actual, _ = trained(optimizer, START, BATCHES[count])
    decoupled = decay_mode is WeightDecayMode.Decay
    numbers = {"lr": 0.02, "wd": 0.1, "a": 0.9, "mm": momentum, "eps": 1e-2, "tf": tf}
    assert_close(actual, np.stack(list(reference.adaptive(START, BATCHES[count], mode=mode.name, decoupled=decoupled, **numbers))))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["plain", "Combined", "Separate", "Adam", "Adaptive"])
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
    actual, _ = trained(optimizer, START, batches, **REDUCTIONS[reduction])
    assert_close(actual, np.stack(list(expected)))
