"""Convolutions against ONNX Runtime, and what programs are made of."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import prepared, run_node, run_nodes
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.ops.nn.conv import MOST_TAPS, MOST_WINDOW_ELEMENTS, convolution, plain
from tilestep.onnx.ops.nn.windows import windows

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


X = values(2, 3, 5, 4)
SUMMED, MULTIPLIED = values(6, 1, 3, 2, seed=1), values(19, 3, 3, 2, seed=1)  # each channel by itself; fewer windows (18) than kernels
AT = windows((5, 4), (3, 2), strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1])
ODD: dict[str, Any] = {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}
CASES: list[tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = [
    ((2, 3, 5, 4), (3, 1, 3, 2), 3, ODD),
    ((1, 2, 9), (6, 1, 4), 2, {"auto_pad": "SAME_UPPER", "strides": [2]}),  # each channel makes three
    ((1, 2, 4, 5, 3), (2, 1, 2, 3, 1), 2, {"strides": [2, 1, 1]}),
    ((2, 3, 5, 4), (19, 3, 3, 2), 1, ODD),
    ((1, 2, 9), (6, 2, 4), 1, {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ((1, 3, 4, 4), (9, 3, 1, 1), 1, {"strides": [2, 2]}),
    ((0, 3, 4, 4), (9, 3, 2, 2), 1, {}),
]


def _convolutions(function: Any, x: Any, platform: str) -> int:
    """How many convolutions the program of a platform has."""
    return jax.jit(function).trace(x).lower(lowering_platforms=(platform,)).as_text().count("stablehlo.convolution")


@each("case", CASES)
def test_values_are_onnxruntimes(case: tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]) -> None:
    x, w, group, attributes = case
    agrees_with_onnxruntime("Conv", [values(*x), values(*w, seed=1), values(w[0], seed=2)], version=11, group=group, **attributes)


@each(
    "shape, group, dtype, count",
    [
        ((4, 1, 3, 3), 4, np.float16, 0),
        ((4, 2, 3, 3), 2, np.float32, 1),  # XLA:CPU is quick by itself
        ((4, 2, 3, 3), 2, np.int32, 0),
        ((500, 4, 3, 3), 1, np.float32, 0),  # more than the windows
        ((5, 4, 3, 3), 1, np.float32, 1),
        ((500, 4, 3, 3), 1, np.float16, 1),  # a product of halves would add halves
        ((4, 1, 1, MOST_TAPS + 1), 4, np.float32, 1),
    ],
)
def test_what_is_slow_as_one_operation(shape: tuple[int, ...], group: int, dtype: Any, count: int) -> None:
    x, w = values(1, 4, 4, MOST_TAPS + 1).astype(dtype), values(*shape, seed=1).astype(dtype)
    assert _convolutions(function_of("Conv", [x, jnp.asarray(w)], version=11, group=group), x, "cpu") == count


def test_windows_that_take_too_much_memory_stay_where_they_are() -> None:
    side, w = int((MOST_WINDOW_ELEMENTS / 9) ** 0.5), np.ones((1, 1, 3, 3), np.int32)
    for size, count in ((side, 0), (side + 1, 1)):
        at = windows((size, size), (3, 3), pads=[1, 1, 1, 1])
        text = jax.jit(convolution, static_argnums=(2, 3)).lower(jax.ShapeDtypeStruct((1, 1, size, size), np.int32), w, at, 1).as_text()
        assert text.count("stablehlo.convolution") == count


@each("w, group", [(SUMMED, 3), (MULTIPLIED, 1)])
def test_derivatives_are_those_of_one_operation(w: Any, group: int) -> None:
    def slopes(function: Any) -> Any:
        def total(x: Any, w: Any) -> Any:
            return jnp.sum(jnp.sin(function(x, w, AT, group)))

        along = jax.jvp(lambda x: total(x, w), (X,), (X,))[1]
        return *jax.grad(total, (0, 1))(X, w), jax.jit(jax.hessian(total))(X, w), along

    for found, wanted in zip(slopes(convolution), slopes(plain), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@each("w, group", [(SUMMED, 3), (MULTIPLIED, 1)])
def test_the_backward_pass_keeps_both_operands_and_has_one_operation_for_each(w: Any, group: int) -> None:
    y, backward = jax.vjp(lambda x, w: convolution(x, w, AT, group), X, w)
    assert sorted(kept.shape for kept in jax.tree.leaves(backward)) == sorted([X.shape, w.shape])
    assert _convolutions(backward, y, "cpu") == 2
    assert _convolutions(jax.vjp(lambda x: convolution(x, jnp.asarray(w), AT, group), X)[1], y, "cpu") == 1  # the kernels are constants
