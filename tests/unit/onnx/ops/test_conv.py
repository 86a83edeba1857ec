"""Convolutions against ONNX Runtime, and by hand in each version."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import prepared, run_node, run_nodes
from tilestep.onnx.errors import OnnxError

F = np.float32
IMAGE = values(2, 4, 7, 6)
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 3, 4), (4, 5, 3, 2), {}),
    ((1, 4, 3, 4), (4, 5, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 2]}),
    ((1, 4, 3, 4), (4, 2, 3, 3), {"strides": [2, 2], "group": 2, "dilations": [2, 1]}),
    ((1, 4, 3, 4), (4, 1, 3, 3), {"group": 4}),
    ((1, 4, 3, 4), (4, 5, 3, 3), {"strides": [2, 2], "output_shape": [6, 8]}),
    ((1, 4, 3, 4), (4, 5, 3, 3), {"strides": [3, 2], "output_shape": [10, 8], "output_padding": [1, 1]}),
    ((1, 4, 3, 4), (4, 5, 4, 4), {"strides": [2, 2], "output_shape": [7, 9], "auto_pad": "SAME_UPPER"}),
    ((1, 4, 3, 4), (4, 5, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 4, 3, 4), (4, 5, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 4, 3, 4), (4, 5, 3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
    ((1, 2, 5), (2, 3, 3), {"pads": [3, 3]}),  # more than the kernel reaches
    ((1, 2, 2, 3, 2), (2, 3, 2, 2, 2), {"strides": [1, 2, 1]}),
]


@each("case", TRANSPOSED)
def test_conv_transpose_is_onnxruntimes(case: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> None:
    x, w, attributes = case
    bias = values(w[1] * attributes.get("group", 1), seed=2)
    agrees_with_onnxruntime("ConvTranspose", [values(*x), values(*w, seed=1), bias], version=11, **attributes)


@each("op_type", ["Conv", "ConvTranspose"])
def test_a_convolution_is_one_operation(op_type: str) -> None:
    node = helper.make_node(op_type, ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    graph = prepared([node], ["x", "w"], ["y"], {"": 11})
    jaxpr = str(jax.make_jaxpr(lambda *inputs: run_nodes(graph, inputs))(IMAGE, values(4, 4, 3, 3)))
    assert jaxpr.count("conv_general_dilated") == 1
    assert "pad[" not in jaxpr
    assert "transpose[" not in jaxpr


@each("attributes", [{}, {"strides": [2, 2]}, {"pads": [1, 1, 1, 1]}])
def test_a_convolution_of_one_element_is_a_product_with_channels_last(attributes: dict[str, Any]) -> None:
    inputs = [IMAGE, values(5, 4, 1, 1)]
    found = primitives(function_of("Conv", inputs, version=11, **attributes), IMAGE)
    assert found == (["conv_general_dilated"] if attributes else ["transpose", "dot_general", "transpose"])
    agrees_with_onnxruntime("Conv", [*inputs, values(5, seed=2)], version=11, **attributes)


def test_what_doesnt_fit_is_named() -> None:
    with pytest.raises(OnnxError, match=r"kernel_shape is \[2, 2\], and the weights have \[3, 3\]"):
        run_node("Conv", [IMAGE, values(4, 4, 3, 3)], version=11, kernel_shape=[2, 2])
    with pytest.raises(OnnxError, match="feature_group_count"):
        run_node("Conv", [IMAGE, values(4, 4, 3, 3)], version=11, group=3)
    with pytest.raises(OnnxError, match="auto_pad is 'FULL'"):
        run_node("ConvTranspose", [IMAGE, values(4, 4, 3, 3)], version=11, auto_pad="FULL")


@each("length", [1, 5])
@each("past", [False, True])
def test_causal_convolutions_look_back(length: int, past: bool) -> None:
    x, w, b = values(2, 3, length), values(3, 1, 4, seed=1), values(3, seed=2)
    before = values(2, 3, 3, seed=3) if past else np.zeros((2, 3, 3), F)
    whole = np.concatenate([before, x], 2)
    y = np.stack([(whole[:, :, i : i + 4] * w[:, 0]).sum(-1) for i in range(length)], 2) + b[:, None]
    agrees(
        [y / (1 + np.exp(-y)), whole[:, :, -3:]], "CausalConvWithState", [x, w, b, before if past else None], version=27, activation="silu"
    )


@each("attributes", [{}, {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [2, 1]}, {"group": 2, "offset_group": 2}])
def test_deform_conv_is_the_references(attributes: dict[str, Any]) -> None:
    groups, offsets = attributes.get("group", 1), attributes.get("offset_group", 1)
    x, w = values(1, 2, 4, 3), values(2, 2 // groups, 2, 2, seed=1)
    plain = {name: value for name, value in attributes.items() if name != "offset_group"}
    shape = run_node("Conv", [x, w], "shapes", version=11, **plain)[0].shape[2:]
    inputs = [x, w, values(1, offsets * 8, *shape, seed=2), values(2, seed=3), values(1, offsets * 4, *shape, seed=4)]
    names = ["x", "w", "offset", "b", "mask"]
    graph = helper.make_graph(
        [helper.make_node("DeformConv", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(n, 1, None) for n in names],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    expected = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    agrees(expected, "DeformConv", inputs, version=19, rtol=1e-4, atol=1e-4, ways=("jit",), **attributes)


def test_a_convolution_without_offsets_is_plain() -> None:
    x, w = values(1, 2, 4, 5, 3), values(3, 2, 2, 2, 2, seed=1)
    plain = run_node("Conv", [x, w], version=11)[0]
    agrees([plain], "DeformConv", [x, w, np.zeros((1, 24, 3, 4, 2), F)], version=19, atol=1e-5, ways=("jit",))


@each("dtype", [np.float32, np.int64])
def test_columns_add_up(dtype: Any) -> None:
    # Blocks of two at 0, 1 and 2, dilated by two, on a field of three with one of padding on each side.
    columns = np.array([[[1, 2, 3], [10, 20, 30]]], dtype)
    shapes = np.array([1, 3]), np.array([1, 2])
    agrees([np.array([[[[2, 13, 20]]]], dtype)], "Col2Im", [columns, *shapes], version=18, pads=[0, 1, 0, 1], dilations=[1, 2])
