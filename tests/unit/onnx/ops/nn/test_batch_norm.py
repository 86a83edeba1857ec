"""Batch norm in all versions, in inference and in training."""

from typing import Any

import jax
import numpy as np
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import prepared
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

F = np.float32
X = values(4, 3, 5, 2)
SCALE, BIAS, MEAN, VARIANCE = values(3, seed=1), values(3, seed=2), values(3, seed=3), np.abs(values(3, seed=4)) + F(0.5)
INPUTS = [X, SCALE, BIAS, MEAN, VARIANCE]


def channels(values: Any) -> Any:
    return np.asarray(values).reshape(1, -1, 1, 1)


def normed(mean: Any, variance: Any, epsilon: float = 1e-5) -> Any:
    return ((X - channels(mean)) / np.sqrt(channels(variance) + F(epsilon)) * channels(SCALE) + channels(BIAS)).astype(F)


def old(version: int) -> dict[str, Any]:
    return {"consumed_inputs": [0, 0, 0, 1, 1]} if version == 1 else {}


@each("version", [1, 6])
def test_is_test_says_that_it_is_inference(version: int) -> None:
    expected = [normed(MEAN, VARIANCE), MEAN, VARIANCE]
    agrees(expected, "BatchNormalization", INPUTS, version=version, is_test=1, rtol=1e-4, atol=1e-5, **old(version))


def test_known_statistics_leave_a_product_and_a_sum() -> None:
    names = ["x", "scale", "bias", "mean", "variance"]
    graph = prepared([helper.make_node("BatchNormalization", names, ["y"])], names, ["y"], {"": 9})
    jaxpr = jax.make_jaxpr(lambda x: run_graph(graph, [x, *INPUTS[1:]], GraphRun()))(X)
    assert [str(equation.primitive) for equation in jaxpr.eqns if str(equation.primitive) != "broadcast_in_dim"] == ["mul", "add"]
