"""Batch norm in all versions, in inference and in training."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, slope_agrees, values
from tests.unit.onnx.ops.one_node import prepared, run_node
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpret import Run, run_graph

F = np.float32
X = values(4, 3, 5, 2)
SCALE, BIAS, MEAN, VARIANCE = values(3, seed=1), values(3, seed=2), values(3, seed=3), np.abs(values(3, seed=4)) + F(0.5)
INPUTS = [X, SCALE, BIAS, MEAN, VARIANCE]


def channels(values: Any) -> Any:
    return np.asarray(values).reshape(1, -1, 1, 1)


def normed(mean: Any, variance: Any, epsilon: float = 1e-5) -> Any:
    return ((X - channels(mean)) / np.sqrt(channels(variance) + F(epsilon)) * channels(SCALE) + channels(BIAS)).astype(F)


def trained(momentum: float = 0.9) -> tuple[Any, Any, Any, Any, Any]:
    """The result, the next running statistics, and the batch's."""
    mean, variance = X.mean((0, 2, 3)), X.var((0, 2, 3))
    old, new = F(momentum), F(1 - momentum)
    return normed(mean, variance), MEAN * old + mean * new, VARIANCE * old + variance * new, mean, variance


def old(version: int) -> dict[str, Any]:
    return {"consumed_inputs": [0, 0, 0, 1, 1]} if version == 1 else {}


@each("version", [1, 6, 7, 9, 14, 15])
def test_inference_by_hand(version: int) -> None:
    agrees([normed(MEAN, VARIANCE)], "BatchNormalization", INPUTS, version=version, **old(version), rtol=1e-4, atol=1e-5)


@each("version", [1, 6, 7, 9])
def test_five_outputs_are_training(version: int) -> None:
    options = {**old(version), "rtol": 1e-4, "atol": 1e-5, "momentum": 0.75}
    agrees(trained(0.75), "BatchNormalization", INPUTS, version=version, **options)


@each("version", [1, 6])
def test_is_test_says_that_it_is_inference(version: int) -> None:
    expected = [normed(MEAN, VARIANCE), MEAN, VARIANCE]
    agrees(expected, "BatchNormalization", INPUTS, version=version, is_test=1, rtol=1e-4, atol=1e-5, **old(version))


@each("version", [14, 15])
def test_training_mode_is_training(version: int) -> None:
    agrees(trained()[:3], "BatchNormalization", INPUTS, version=version, training_mode=1, rtol=1e-4, atol=1e-5)


@each("version", [1, 6, 7])
@each("outputs", [1, 5])
def test_statistics_of_each_element(version: int, outputs: int) -> None:
    shape = X.shape[1:]
    scale, bias, mean, variance = (values(*shape, seed=seed) for seed in range(1, 5))
    variance = np.abs(variance) + F(0.5)
    used = (mean, variance) if outputs == 1 else (X.mean(0), X.var(0))
    y = (X - used[0]) / np.sqrt(used[1] + F(1e-5)) * scale + bias
    results = run_node(
        "BatchNormalization", [X, scale, bias, mean, variance], "jit", version=version, outputs=outputs, spatial=0, **old(version)
    )
    np.testing.assert_allclose(results[0], y, 1e-4, 1e-4)
    if outputs == 5:
        np.testing.assert_allclose(results[1], mean * F(0.9) + used[0] * F(0.1), 1e-4, 1e-5)


def test_statistics_of_each_element_need_as_many_scales() -> None:
    with pytest.raises(OnnxError, match=r"scale has 3 elements; with spatial = 0 it has those of \[3, 5, 2\]"):
        run_node("BatchNormalization", INPUTS, version=7, spatial=0)


@each("shape", [(4, 3), (4,)])
def test_fewer_axes(shape: tuple[int, ...]) -> None:
    count = 3 if len(shape) > 1 else 1
    x, scale, bias, mean, variance = values(*shape), SCALE[:count], BIAS[:count], MEAN[:count], VARIANCE[:count]
    expected = (x - mean) / np.sqrt(variance + F(1e-5)) * scale + bias
    agrees([expected], "BatchNormalization", [x, scale, bias, mean, variance], version=9, rtol=1e-4, atol=1e-5)


@each("version", [6, 9, 15])
@each("written", [True, False])
def test_a_training_run_trains_whatever_the_file_says(version: int, written: bool) -> None:
    attributes: dict[str, Any] = ({"is_test": 1} if version == 6 else {"training_mode": 0} if version == 15 else {}) if written else {}
    names = ["x", "scale", "bias", "mean", "variance"]
    graph = prepared([helper.make_node("BatchNormalization", names, ["y"], **attributes)], names, ["y"], {"": version})

    def train(inputs: list[Any]) -> tuple[Any, dict[str, Any]]:
        run = Run(training=True)
        return run_graph(graph, inputs, run)[0], run.state

    y, state = jax.jit(train)(INPUTS)
    expected = trained()
    np.testing.assert_allclose(y, expected[0], 1e-4, 1e-5)
    assert sorted(state) == ["mean", "variance"]
    np.testing.assert_allclose(state["mean"], expected[1], 1e-4, 1e-6)
    np.testing.assert_allclose(state["variance"], expected[2], 1e-4, 1e-6)


def test_a_file_that_trains_leaves_no_state_in_inference() -> None:
    run = Run()
    run_node("BatchNormalization", INPUTS, version=15, outputs=3, training_mode=1, run=run)
    assert not run.state


def test_statistics_of_half_precision_are_taken_in_32_bits() -> None:
    x = np.full((4, 1, 100, 100), 30, np.float16) + values(4, 1, 100, 100, dtype=np.float16)
    one, none = np.ones(1, np.float16), np.zeros(1, np.float16)
    mean = run_node(
        "BatchNormalization", [x, one, none, none.astype(F), one.astype(F)], version=14, outputs=3, training_mode=1, momentum=0.0
    )[1]
    np.testing.assert_allclose(mean, x.astype(F).mean(), 1e-5)  # a sum in 16 bits is beyond 65,504


def test_known_statistics_leave_a_product_and_a_sum() -> None:
    names = ["x", "scale", "bias", "mean", "variance"]
    graph = prepared([helper.make_node("BatchNormalization", names, ["y"])], names, ["y"], {"": 9})
    jaxpr = jax.make_jaxpr(lambda x: run_graph(graph, [x, *INPUTS[1:]], Run()))(X)
    assert [str(equation.primitive) for equation in jaxpr.eqns if str(equation.primitive) != "broadcast_in_dim"] == ["mul", "add"]


@pytest.mark.slow  # tests/unit/onnx/ops/gradients has a case of each operator
@each("position", range(5))
def test_gradients_in_inference(position: int) -> None:
    slope_agrees("BatchNormalization", INPUTS, version=9, position=position)


@pytest.mark.slow  # tests/unit/onnx/ops/gradients has a case of each operator
@each("position", range(3))
def test_gradients_in_training(position: int) -> None:
    slope_agrees("BatchNormalization", INPUTS, version=15, position=position, training_mode=1)
