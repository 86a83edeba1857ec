"""Activation functions: each old version, types, and gradients that stay finite where the other branch overflows."""

import math
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import run_node
from tests.unit.onnx.ops.versions import missing, takes, versions
from tilestep.onnx.errors import OnnxError

F = np.float32
X = np.array([-100, -2, -0.5, 0, 0.5, 2, 100], F)


def expm1(x: Any) -> Any:
    return np.expm1(np.minimum(x, 0))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


GELU_TANH = np.vectorize(lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("Relu", {}, lambda x: np.maximum(x, 0)),
    ("LeakyRelu", {"alpha": 0.2}, lambda x: np.where(x < 0, 0.2 * x, x)),
    ("Elu", {"alpha": 2.0}, lambda x: np.where(x < 0, 2 * expm1(x), x)),
    ("Selu", {"alpha": 2.0, "gamma": 3.0}, lambda x: 3 * np.where(x > 0, x, 2 * expm1(x))),
    ("Celu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * expm1(x / 2))),
    ("ThresholdedRelu", {"alpha": 0.6}, lambda x: np.where(x > 0.6, x, 0)),
    ("HardSigmoid", {"alpha": 0.5, "beta": 0.6}, lambda x: np.clip(0.5 * x + 0.6, 0, 1)),
    ("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Sigmoid", {}, sigmoid),
    ("Swish", {"alpha": 2.0}, lambda x: x * sigmoid(2 * x)),
    ("Softplus", {}, softplus),
    ("Softsign", {}, lambda x: x / (1 + abs(x))),
    ("Mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("Gelu", {}, np.vectorize(lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))))),
    ("Gelu", {"approximate": "tanh"}, GELU_TANH),
    ("Shrink", {"lambd": 1.0, "bias": 0.5}, lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
]
SOFTMAX = [(name, version) for name in ("Softmax", "LogSoftmax", "Hardmax") for version in (1, 11)]  # test_all_axes_from_one_on_are_one
PRELU = [("PRelu", version) for version in versions("PRelu")]
ROWS = [(name, version, attributes, function) for name, attributes, function in CASES for version in versions(name)]


def test_every_version_below_12_has_a_case() -> None:
    assert not missing("activations", [*((name, version) for name, version, _, _ in ROWS), *PRELU, *SOFTMAX])


@each("name, version, attributes, function", ROWS)
def test_functions(name: str, version: int, attributes: dict[str, Any], function: Any) -> None:
    old = {"consumed_inputs": [0]} if takes(name, version, "consumed_inputs") else {}
    with np.errstate(all="ignore"):
        expected = function(X.astype(np.float64)).astype(F)
    agrees([expected], name, [X], version=version, **attributes, **old)


@each("name, version", PRELU)
def test_slopes_of_channels(name: str, version: int) -> None:
    x = np.arange(-12, 12).reshape(2, 3, 4).astype(F)
    slope = np.array([0.5, 2, 3], F)
    expected = np.where(x < 0, x * slope[:, None], x)
    agrees([expected], name, [x, slope if version < 7 else slope[:, None]], version=version)
    agrees([np.where(x < 0, x * 0.5, x)], name, [x, slope[:1]], version=version, ways=("jit",))
    with pytest.raises(OnnxError, match="slopes of"):
        run_node(name, [x, np.ones((2, 2), F) if version < 7 else np.ones((1, 1, 1, 4), F)], version=version)


def test_integers() -> None:
    agrees([np.array([0, 3], np.int32)], "Relu", [np.array([-2, 3], np.int32)], version=14)
    agrees([np.array([-4, 3], np.int32)], "PRelu", [np.array([-2, 3], np.int32), np.array(2, np.int32)], version=9)
    agrees([np.array([-1, 0, 0, 0, 1], np.int8)], "Shrink", [np.array([-3, -2, 0, 2, 3], np.int8)], version=9, lambd=2.0, bias=1.5)
    agrees([np.array([-1, 0, 0, 0, 1], np.int8)], "Shrink", [np.array([-3, -2, 0, 2, 3], np.int8)], version=9, lambd=2.0, bias=2.0)
    agrees([np.array([0, 0, 8], np.uint8)], "Shrink", [np.array([0, 1, 10], np.uint8)], version=9, lambd=1.5, bias=1.5)


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(OnnxError, match="neither none nor tanh"):
        run_node("Gelu", [X], version=20, approximate="sine")
    with pytest.raises(OnnxError, match="divides by alpha"):
        run_node("Celu", [X], version=12, alpha=0.0)


NAMES = ("Softmax", "LogSoftmax", "Hardmax")
SCORES = values(2, 3, 4)


@each("version", [1, 11])
def test_all_axes_from_one_on_are_one(version: int) -> None:
    exponentials = np.exp(SCORES)
    agrees([exponentials / exponentials.sum((1, 2), keepdims=True)], "Softmax", [SCORES], version=version)
    agrees([SCORES - np.log(exponentials.sum((1, 2), keepdims=True))], "LogSoftmax", [SCORES], version=version)
    one = np.array([[[0, 1], [1, 0]]], np.float32)
    agrees([np.array([[[0, 1], [0, 0]]], np.float32)], "Hardmax", [one], version=version)


@each("op_type", NAMES)
@each("version", [1, 13])
def test_an_axis_that_isnt_there_is_named(op_type: str, version: int) -> None:
    with pytest.raises(OnnxError, match="axis 3 is out of bounds for array of dimension 3"):
        run_node(op_type, [SCORES], version=version, axis=3)
