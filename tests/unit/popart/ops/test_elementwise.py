"""Elementwise operators: values and gradients by NumPy."""

from typing import Any

import numpy as np

from tests.together import each
from tests.unit.onnx.ops.one_node import node_graph
from tests.unit.popart.ops.graphcore import DOMAIN, gradient, holds, outputs, slope_holds
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

F = np.float32
X = np.random.default_rng(0).standard_normal((2, 3)).astype(F)
Y = np.random.default_rng(1).standard_normal((2, 3)).astype(F)
FIRST, SECOND = np.array([5, -3, 12], np.int32), np.array([3, 6, 10], np.int32)


@each(
    "op_type, expected",
    [("BitwiseAnd", FIRST & SECOND), ("BitwiseOr", FIRST | SECOND), ("BitwiseXor", FIRST ^ SECOND), ("BitwiseXnor", ~(FIRST ^ SECOND))],
)
def test_bits_of_two(op_type: str, expected: Any) -> None:
    holds([expected], op_type, [FIRST, SECOND])


@each("dtype", [np.float16, np.float32, np.uint32, np.int32])
def test_increments_turn_around(dtype: Any) -> None:
    x = np.array([5, -5, 10, 1, 2]).astype(dtype)
    holds([np.fmod(x + np.asarray(3, dtype), np.asarray(4, dtype))], "IncrementMod", [x], increment=3.0, modulus=4.0)


@each("op_type", ["Expm1", "Log1p", "Gelu", "GeluErf", "Swish", "Scale"])
def test_gradients_are_slopes(op_type: str) -> None:
    slope_holds(op_type, [abs(X)], **({"scale": 0.3} if op_type == "Scale" else {}))


@each("position", [0, 1])
def test_the_gradients_of_an_angle_are_slopes(position: int) -> None:
    slope_holds("Atan2", [Y, X], position=position)


@each("op_type", ["Fmod", "Remainder"])
def test_remainders_have_the_gradient_1_for_what_is_divided(op_type: str) -> None:
    np.testing.assert_array_equal(gradient(op_type, [X, Y]), np.ones_like(X))
    assert not gradient(op_type, [X, Y], position=1).any()


@each("op_type", ["Round", "NearbyInt", "Detach", "Nop"])
def test_no_gradient_comes_through(op_type: str) -> None:
    assert not gradient(op_type, [X]).any()


def test_an_updater_becomes_the_variables_next_value() -> None:
    graph = node_graph("CopyVarUpdate", [X, Y], version=1, domain=DOMAIN)
    state: dict[str, Any] = {}
    (alias,) = run_graph(graph, [X, Y], GraphRun(state=state))
    np.testing.assert_array_equal(alias, Y)
    np.testing.assert_array_equal(state["in0"], Y)


def test_operands_broadcast() -> None:
    assert outputs("Atan2", [Y, X[0]])[0].shape == (2, 3)
