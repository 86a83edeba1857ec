"""Pools against ONNX Runtime, maxima that go back, gradients, and windows by hand."""

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import compiled, each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import prepared, run_node, run_nodes
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.ops.nn.windows import windows

F = np.float32
X = values(2, 3, 7, 6)
PLAIN: list[dict[str, Any]] = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [4, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 2], "auto_pad": "VALID"},
]
CEILED: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "strides": [3, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1},
]
DILATED: list[dict[str, Any]] = [{"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 1]}]


@each("attributes", PLAIN + CEILED + DILATED)
def test_max_pool_is_onnxruntimes(attributes: dict[str, Any]) -> None:
    agrees_with_onnxruntime("MaxPool", [X], version=10, **attributes)


@each("storage_order", [0, 1])
@each("attributes", [PLAIN[1], CEILED[0], DILATED[0]])
def test_positions_of_maxima_are_onnxruntimes(attributes: dict[str, Any], storage_order: int) -> None:
    agrees_with_onnxruntime("MaxPool", [X], version=11, outputs=2, storage_order=storage_order, **attributes)


@each("version", [9, 11, 22])
def test_maxima_go_back_to_their_places(version: int) -> None:
    x, positions = np.array([[[5, 7]], [[6, 8]]], F), np.array([[[1, 2]], [[4, 7]]])
    whole = np.array([[[0, 5, 7, 0]], [[6, 0, 0, 8]]], F)
    agrees([whole], "MaxUnpool", [x, positions], version=version, kernel_shape=[2], strides=[2])
    larger = np.pad(whole, ((0, 0), (0, 0), (0, 1)))
    agrees([larger], "MaxUnpool", [x, positions, np.array([2, 1, 5])], version=version, kernel_shape=[2], strides=[2])


def test_places_outside_are_refused_where_they_are_known() -> None:
    with pytest.raises(OnnxError, match="positions are 0 to 4, and the result has 4 elements"):
        run_node("MaxUnpool", [np.ones((1, 1, 2), F), np.array([[[0, 4]]])], "known", version=9, kernel_shape=[2], strides=[2])


@each("op_type", ["MaxPool", "AveragePool"])
def test_a_pool_is_one_operation(op_type: str) -> None:
    graph = prepared([helper.make_node(op_type, ["x"], ["y"], **PLAIN[1])], ["x"], ["y"], {"": 11})
    jaxpr = str(jax.make_jaxpr(lambda x: run_nodes(graph, [x]))(X))
    assert jaxpr.count("reduce_window") == 1
    assert "pad[" not in jaxpr


@each("op_type", ["LpPool", "GlobalLpPool"])
@each("p", [1, 2, 3])
def test_a_norm_of_zeros_has_a_gradient(op_type: str, p: int) -> None:
    attributes = {"kernel_shape": [2], "p": p} if op_type == "LpPool" else {"p": p}
    graph = prepared([helper.make_node(op_type, ["x"], ["y"], **attributes)], ["x"], ["y"], {"": 11})

    def check(gradient: Any) -> None:
        assert np.isfinite(gradient).all()

    compiled(jax.grad(lambda x: run_graph(graph, [x], GraphRun())[0].sum()), np.zeros((1, 1, 3), F), check)


@each("op_type", ["MaxPool", "AveragePool"])
def test_windows_are_reduced_with_channels_last(op_type: str) -> None:
    x = np.zeros((1, 3, 8, 6), np.float32)
    found = primitives(function_of(op_type, [x], version=11, kernel_shape=[2, 2], strides=[2, 2]), x)
    assert found[:3] == ["transpose", {"MaxPool": "reduce_window_max", "AveragePool": "reduce_window_sum"}[op_type], "transpose"]


@each(
    "size, attributes, outputs, padding",
    [
        (5, {}, 3, (0, 0)),
        (5, {"strides": (2,)}, 2, (0, 0)),
        (6, {"strides": (2,), "pads": (1, 0)}, 3, (1, 0)),
        (7, {"dilations": (3,)}, 1, (0, 0)),
        (5, {"auto_pad": "SAME_UPPER", "strides": (2,)}, 3, (1, 1)),
        (6, {"auto_pad": "SAME_UPPER", "strides": (2,)}, 3, (0, 1)),
        (6, {"auto_pad": "SAME_LOWER", "strides": (2,)}, 3, (1, 0)),
        (6, {"auto_pad": "SAME_UPPER", "strides": (4,)}, 2, (0, 1)),
        (5, {"auto_pad": "VALID", "strides": (2,), "pads": (9, 9)}, 2, (0, 0)),
        (6, {"ceil_mode": 1, "strides": (2,)}, 3, (0, 1)),  # the last window reaches one beyond the field
        (5, {"ceil_mode": 1, "strides": (2,)}, 2, (0, 0)),
        (4, {"ceil_mode": 1, "strides": (4,), "pads": (1, 2)}, 2, (1, 2)),
        (3, {"ceil_mode": 1, "strides": (3,), "pads": (0, 1)}, 1, (0, 1)),  # a second one would start behind the field
    ],
)
def test_windows_of_three(size: int, attributes: dict[str, object], outputs: int, padding: tuple[int, int]) -> None:
    at = windows((size,), (3,), **attributes)
    assert (at.outputs, at.padding) == ((outputs,), (padding,))


@each(
    "attributes, message",
    [
        ({"strides": (0, 1)}, r"strides is \[0, 1\], and each must be at least 1"),
        ({"dilations": (1,)}, "dilations has 1 values, and the input wants 2"),
        ({"pads": (0, 0, 0, -1)}, r"pads is \[0, 0, 0, -1\], and each must be at least 0"),
        ({"auto_pad": "SAME"}, "auto_pad is 'SAME', and may be NOTSET, SAME_UPPER, SAME_LOWER or VALID"),
        ({"dilations": (3, 1)}, "a window of 7 is larger than the padded field of 5"),
    ],
)
def test_what_cant_be_says_why(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        windows((5, 5), (3, 3), **attributes)
