"""Automatic loss scaling."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.popart.optimizers.running import context
from tilestep.popart.enums import GradientTensorTrackingMethod
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import SGD, Adam, Adaptive, AutomaticLossScaling, ForwardNode, Optimizer, UpdateRule, tracked_tensors

SMALL = [jnp.full(10, 1.0, jnp.float16)]
LARGE = [jnp.full(10, 40000.0, jnp.float16)]


@dataclass(kw_only=True)
class Settings:
    binEdgeLocation: float = 0.5
    thresholdUpperCountProportion: float = 0.2
    toTrackTensors: list[str] | None = None
    updatePeriod: int = 1
    gradientTensorTrackingMethod: GradientTensorTrackingMethod = field(
        default=GradientTensorTrackingMethod.AllNonViewChangingGradientTensors
    )


def rule_of(optimizer: Optimizer, *, factor: int = 1, **settings: Any) -> UpdateRule:
    automatic = AutomaticLossScaling.of(Settings(**settings), accumulation=factor)
    return optimizer.rule(context({"w": jnp.ones(2)}, accumulation_factor=factor, automatic_loss_scaling=automatic))


def scales(rule: UpdateRule, gradients: list[list[Any]], factor: int = 1) -> list[float]:
    """The loss scaling of each microbatch."""
    params = {"w": jnp.ones(2)}
    state, seen = rule.init(params), []
    for index, tracked in enumerate(gradients):
        seen.append(float(rule.loss_scale(state)))
        state = rule.accumulate(rule.observe(state, tracked), {"w": jnp.zeros(2)})
        if (index + 1) % factor == 0:
            params, state = rule.update(state, params)
    return seen


CHANGEABLE = {"lossScaling": (10.0, False)}


def test_it_changes_once_per_update_of_the_weights() -> None:
    assert scales(rule_of(SGD(CHANGEABLE), factor=3), [SMALL] * 7, 3) == [10, 10, 10, 20, 20, 20, 40]


def test_one_large_microbatch_counts_among_all_of_its_batch() -> None:
    assert scales(rule_of(SGD(CHANGEABLE), factor=2), [SMALL, LARGE, SMALL], 2) == [10, 10, 5]
    rule = rule_of(SGD(CHANGEABLE), factor=2, thresholdUpperCountProportion=0.6)
    assert scales(rule, [SMALL, LARGE, SMALL], 2) == [10, 10, 20]


def test_an_edge_below_float16s_numbers_is_0_so_that_all_gradients_are_large() -> None:
    zero = [jnp.zeros(10, jnp.float16)]
    assert scales(rule_of(SGD(CHANGEABLE), binEdgeLocation=1e-20), [zero, zero]) == [10, 5]


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(CHANGEABLE),
        SGD({**CHANGEABLE, "defaultMomentum": (0.5, False), "nesterov": (1, True)}),
        Adam({**CHANGEABLE, "defaultEps": (0.5, False)}),
        Adaptive({**CHANGEABLE, "defaultEps": (0.5, False)}),
    ],
    ids=["SGD", "Nesterov", "Adam", "Adaptive"],
)
def test_weights_don_t_see_the_scaling(optimizer: Optimizer) -> None:
    rule, plain = rule_of(optimizer), optimizer.rule(context({"w": jnp.ones(2)}))
    params, plain_params = {"w": jnp.ones(2)}, {"w": jnp.ones(2)}
    state, plain_state = rule.init(params), plain.init(params)
    for index in range(6):
        gradient = jnp.array([1.0, -2.0]) * (index + 1)
        state = rule.accumulate(rule.observe(state, SMALL), {"w": gradient * rule.loss_scale(state)})
        params, state = rule.update(state, params)
        plain_params, plain_state = plain.update(plain.accumulate(plain_state, {"w": gradient * 10.0}), plain_params)
    np.testing.assert_array_equal(params["w"], plain_params["w"])
    assert float(rule.values(state)["finalLossScale"]) == 640.0
    assert float(state.tensors["lossScaleUpdateFactor"]) == 64.0


def test_statistics_are_named_and_begin_anew() -> None:
    rule = rule_of(SGD(CHANGEABLE))
    state = rule.observe(rule.init({"w": jnp.ones(2)}), SMALL + LARGE)
    np.testing.assert_array_equal(state.tensors["Accum___autoLossScaleStats"], [10.0, 10.0])
    _, state = rule.update(rule.accumulate(state, {"w": jnp.zeros(2)}), {"w": jnp.ones(2)})
    np.testing.assert_array_equal(state.tensors["Accum___autoLossScaleStats"], [0.0, 0.0])


def test_the_factor_survives_a_new_optimizer() -> None:
    rule = rule_of(SGD(CHANGEABLE))
    _, state = rule.update(rule.accumulate(rule.observe(rule.init({"w": jnp.ones(2)}), SMALL), {"w": jnp.zeros(2)}), {"w": jnp.ones(2)})
    assert float(rule.loss_scale(rule.with_values(state, SGD({"lossScaling": (3.0, False)})))) == 6.0


def test_replicas_count_together() -> None:
    automatic = AutomaticLossScaling(edge=10.0, threshold=0.5, reduce=lambda counts: counts + jnp.array([0.0, 100.0]))
    tensors = {**automatic.init(), **automatic.observe(automatic.init(), SMALL)}
    assert float(automatic.update(tensors)["lossScaleUpdateFactor"]) == 0.5


def test_the_loss_scaling_must_be_one_that_may_change() -> None:
    with pytest.raises(popart_exception, match=r"The optimizer must have non-const loss scaling$"):
        rule_of(SGD({}))
    with pytest.raises(popart_exception, match=r"^scaledOptimizerState and automaticLossScaling are not compatible"):
        rule_of(Adam(CHANGEABLE, scaled_optimizer_state=True))


NODES = [
    ForwardNode(op_type="MatMul", inputs=("x", "w0")),
    ForwardNode(op_type="Relu", inputs=("m",)),
    ForwardNode(op_type="BatchNormalization", inputs=("r", "scale", "bias")),
    ForwardNode(op_type="Conv", inputs=("b", "w1")),
    ForwardNode(op_type="Reshape", inputs=("c",)),
    ForwardNode(op_type="Softmax", inputs=("s",), outputs=("p",)),
    ForwardNode(op_type="Nll", inputs=("p", "label")),
]
HALVES = ("m", "r", "b", "c", "s", "p", "w0", "w1", "scale", "bias")


def tracked(method: GradientTensorTrackingMethod, chosen: list[str] | None = None, halves: tuple[str, ...] = HALVES) -> tuple[str, ...]:
    settings = Settings(gradientTensorTrackingMethod=method, toTrackTensors=chosen)
    return tracked_tensors(settings, NODES, variables={"w0", "w1", "scale", "bias"}, float16_gradients=halves)


def test_products_are_tracked() -> None:
    assert tracked(GradientTensorTrackingMethod.ConvAndMatmulGradients) == ("w0", "b", "w1")


def test_all_but_views_and_what_reads_a_parameter_are_tracked() -> None:
    assert tracked(GradientTensorTrackingMethod.AllNonViewChangingGradientTensors) == ("w0", "m", "b", "w1")


def test_a_program_may_name_what_is_tracked() -> None:
    by_user = GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    assert tracked(by_user, ["w0", "b", "w0"]) == ("w0", "b")
