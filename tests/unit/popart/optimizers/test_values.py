"""An optimizer's values: keys, defaults, values of single weights, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tilestep.popart.enums import AdaptiveMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import SGD, Adam, Adaptive, ConstSGD, Optimizer, OptimizerValue, OptimizerValueMap

OPTIMIZERS: dict[str, Callable[..., Any]] = {"SGD": SGD, "Adam": Adam, "Adaptive": Adaptive}

# (optimizer, key, getter of its map, key of a single weight, default)
KEYS = [
    ("SGD", "defaultLearningRate", "learningRates", "learningRate", 0.1),
    ("SGD", "defaultWeightDecay", "weightDecays", "weightDecay", 0.0),
    ("SGD", "defaultMomentum", "momentums", "momentum", 0.0),
    ("SGD", "defaultDampening", "dampenings", "dampening", 0.0),
    ("SGD", "defaultVelocityScaling", "velocityScalings", "velocityScaling", 1.0),
    ("SGD", "nesterov", "nesterov", "nesterov", 0.0),
    ("Adam", "defaultLearningRate", "learningRates", "learningRate", 0.1),
    ("Adam", "defaultWeightDecay", "weightDecays", "weightDecay", 0.0),
    ("Adam", "defaultBeta1", "beta1s", "beta1", 0.9),
    ("Adam", "defaultBeta2", "beta2s", "beta2", 0.999),
    ("Adam", "defaultEps", "epss", "eps", 1e-6),
    ("Adam", "defaultMaxWeightNorm", "maxWeightNorms", "maxWeightNorm", 10.0),
    ("Adaptive", "defaultLearningRate", "learningRates", "learningRate", 0.01),
    ("Adaptive", "defaultWeightDecay", "weightDecays", "weightDecay", 0.0),
    ("Adaptive", "defaultAlpha", "alphas", "alpha", 0.99),
    ("Adaptive", "defaultMomentum", "momentums", "momentum", 0.0),
    ("Adaptive", "defaultEps", "epss", "eps", 1e-6),
]


@each("name, key, getter, own, default", KEYS)
def test_each_value_has_a_key_a_default_and_a_key_for_a_single_weight(name: str, key: str, getter: str, own: str, default: float) -> None:
    unset = getattr(OPTIMIZERS[name]({}), getter)().getDefault()
    assert (unset.val(), unset.isConst()) == (float(np.float32(default)), True)
    optimizer = OPTIMIZERS[name]({key: (0.3, False)})
    assert getattr(optimizer, getter)().getDefault() == OptimizerValue(0.3, False)
    assert getattr(optimizer, getter)().getDefault().val() == float(np.float32(0.3))
    optimizer.insertSpecific("w", {own: (0.4, True)})
    assert getattr(optimizer, getter)().get("w") == OptimizerValue(0.4, True)
    assert not getattr(optimizer, getter)().get("v").isConst()
    assert optimizer.hasSpecific("w")
    assert not optimizer.hasSpecific("v")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_weight_of_its_own_has_the_other_values_by_default(name: str) -> None:
    optimizer = OPTIMIZERS[name]({"defaultLearningRate": (0.3, False)})
    assert not optimizer.hasSpecific()
    optimizer.insertSpecific("w", {"weightDecay": (0.2, False)})
    assert optimizer.learningRates().get("w") == OptimizerValue(0.3, False)
    assert optimizer.hasSpecific()
    with pytest.raises(popart_exception, match=r"Attempt to insert specific value for optimization Tensor w"):
        optimizer.insertSpecific("w", {})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loss_scaling_is_one_value_for_all(name: str) -> None:
    assert OPTIMIZERS[name]({}).getLossScalingVal() == 1.0
    optimizer: Optimizer = OPTIMIZERS[name]({"lossScaling": (20, False)})
    assert optimizer.getLossScalingVal() == 20.0
    assert not optimizer.lossScaling().isConst()
    with pytest.raises(popart_exception, match=r"Loss scaling cannot be 0"):
        OPTIMIZERS[name]({"lossScaling": (0.0, True)})


@each("name", OPTIMIZERS)
@each(
    "values, message",
    [
        (
            {"learningRate": (0.1, True)},
            "^Invalid {name} key, learningRate, the allowed keys are \\( defaultLearningRate defaultWeightDecay",
        ),
        ({"defaultLearningRate": (-1.0, False)}, "^Negative learning rate \\(-1.0\\) in {name}"),
        ({"defaultLearningRate": (0.0, True)}, "^Constant, zero learning rate in {name}"),
        ({"defaultWeightDecay": (-0.5, True)}, "^Negative weight decay \\(-0.5\\) in {name}"),
        ({"defaultLearningRate": 0.1}, "^A value in the optimizer map must be a py::tuple"),
        ({"defaultLearningRate": ("much", True)}, "^The optimizer's value defaultLearningRate is \\(a number, whether it is constant\\)"),
        ({"defaultLearningRate": (10**400, True)}, "^The optimizer's value defaultLearningRate is \\(a number"),
        ({"defaultLearningRate": (0.1,)}, "^The optimizer's value defaultLearningRate is"),
        ({1: (0.1, True)}, "^A key in the optimizer map input must be a py::str"),
        ([("defaultLearningRate", (0.1, True))], "^An optimizer's values are a dictionary"),
    ],
)
def test_values_that_make_no_sense_are_refused(name: str, values: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message.format(name=name)):
        OPTIMIZERS[name](values)


@each(
    "name, values, message",
    [
        ("SGD", {"defaultMomentum": (-0.1, True)}, "Negative momentum"),
        ("SGD", {"defaultDampening": (-0.1, True)}, "Negative dampening"),
        ("SGD", {"defaultVelocityScaling": (0.0, True)}, "Non-positive velocity scaling"),
        ("SGD", {"nesterov": (True, True), "defaultDampening": (0.1, True)}, "When enable nesterov momentum, dampening"),
        ("Adam", {"defaultBeta1": (-0.1, True)}, "Negative beta1"),
        ("Adam", {"defaultBeta2": (-0.1, True)}, "Negative beta2"),
        ("Adam", {"defaultEps": (0.0, True)}, "Non-positive eps"),
        ("Adaptive", {"defaultAlpha": (-0.1, True)}, "Negative alpha"),
        ("Adaptive", {"defaultMomentum": (-0.1, True)}, "Negative momentum"),
        ("Adaptive", {"defaultEps": (0.0, True)}, "Non-positive eps"),
    ],
)
def test_values_of_one_optimizer_that_make_no_sense_are_refused(name: str, values: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=f"^{message}.* in {name}"):
        OPTIMIZERS[name](values)
    own = {key.removeprefix("default")[0].lower() + key.removeprefix("default")[1:]: value for key, value in values.items()}
    with pytest.raises(popart_exception, match=f"^{message}.* in {name}"):
        OPTIMIZERS[name]({}).insertSpecific("w", own)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_key_that_no_single_weight_has_is_refused(name: str) -> None:
    with pytest.raises(popart_exception, match=f"^Invalid key lossScaling in {name}::insertSpecific. Permitted keys are \\( learningRate"):
        OPTIMIZERS[name]({}).insertSpecific("w", {"lossScaling": (1.0, True)})


def test_const_sgd_is_sgd_with_constant_values() -> None:
    optimizer = ConstSGD(0.2, weight_decay=0.3, loss_scaling=4.0)
    assert isinstance(optimizer, SGD)
    assert optimizer.learningRates().getDefault() == OptimizerValue(0.2, True)
    assert optimizer.weightDecays().getDefault() == OptimizerValue(0.3, True)
    assert optimizer.lossScaling() == OptimizerValue(4.0, True)


def test_the_old_name_of_the_largest_norm_is_allowed() -> None:
    assert Adam({"maxWeightNorm": (3.0, True)}).maxWeightNorms().getDefault().val() == 3.0


def test_tensorflow_variant_is_for_rmsprop() -> None:
    with pytest.raises(popart_exception, match=r"^The rmspropTFVariant parameter is only valid with the RMSProp"):
        Adaptive({}, AdaptiveMode.AdaGrad, rmsprop_tf_variant=True)


def test_a_value_alone_is_constant_and_none_may_change() -> None:
    assert (OptimizerValue().val(), OptimizerValue().isConst()) == (0.0, False)
    assert (OptimizerValue(0.0).val(), OptimizerValue(0.0).isConst()) == (0.0, True)
    assert OptimizerValue((0.5, False)) == OptimizerValue(0.25, False)
    assert OptimizerValue(0.5, True) != OptimizerValue(0.25, True)


def test_a_map_of_values_replaces_only_its_like() -> None:
    values = OptimizerValueMap(OptimizerValue(0.1, False), {"w": OptimizerValue(0.2, True)})
    values.validReplacement(OptimizerValueMap(OptimizerValue(0.7, False), {"w": OptimizerValue(0.2, True)}))
    for other, message in (
        (OptimizerValueMap(OptimizerValue(0.1, True)), "Default value is not a valid replacement. Can not replace a constant value"),
        (OptimizerValueMap(OptimizerValue(0.1, False)), "Replacement OptimizerValueMap has a different number of specific tensors"),
        (OptimizerValueMap(OptimizerValue(0.1, False), {"v": OptimizerValue(0.2, True)}), "Could not find tensor w in replacement"),
        (
            OptimizerValueMap(OptimizerValue(0.1, False), {"w": OptimizerValue(0.3, True)}),
            "OptimizerValue for tensor w is not a valid repl",
        ),
    ):
        with pytest.raises(popart_exception, match=f"^{message}"):
            values.validReplacement(other)
