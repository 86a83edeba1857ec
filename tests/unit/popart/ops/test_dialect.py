"""ONNX's operators where a session has them compute or refuse what the importer does not."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper

import tilestep.popart.ops  # noqa: F401  # registers all
from tests.together import each
from tilestep.onnx.interpreter.graph import Graph, Preparation
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import DIALECT

F = np.float32
X = np.array([[1, -2, 3], [3, 3, -1]], F)


def node_graph(op_type: str, inputs: int, *, version: int, dialect: str = DIALECT, outputs: int = 1, **attributes: Any) -> Graph:
    names, results = [f"in{i}" for i in range(inputs)], [f"out{i}" for i in range(outputs)]
    values = [[helper.make_empty_tensor_value_info(name) for name in ids] for ids in (names, results)]
    node = helper.make_node(op_type, names, results, **{name: value for name, value in attributes.items() if value != []})
    empty = [helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS) for name, value in attributes.items() if value == []]
    node.attribute.extend(empty)
    return Preparation(functions={}, left=10, dialect=dialect).graph(helper.make_graph([node], "test", *values), {"": version})


def run(op_type: str, inputs: Sequence[Any], *, version: int = 10, **attributes: Any) -> list[Any]:
    graph = node_graph(op_type, len(inputs), version=version, **attributes)
    return jax.jit(lambda *arrays: run_graph(graph, arrays, GraphRun()))(*map(jnp.asarray, inputs))


def gradient(op_type: str, inputs: Sequence[Any], *, version: int = 10, position: int = 0, **attributes: Any) -> np.ndarray[Any, Any]:
    graph = node_graph(op_type, len(inputs), version=version, **attributes)
    total = lambda *arrays: run_graph(graph, arrays, GraphRun())[0].sum()  # noqa: E731
    return np.asarray(jax.grad(total, argnums=position)(*map(jnp.asarray, inputs)))


def test_only_the_dialect_sees_its_operators() -> None:
    a, b = np.ones(2, F), np.ones(2, np.float16)
    with pytest.raises(popart_exception, match="incompatible types FLOAT and FLOAT16"):
        run("Add", [a, b])
    graph = node_graph("Add", 2, version=10, dialect="")
    assert run_graph(graph, [a, b], GraphRun())[0].shape == (2,)


def test_operands_whose_shapes_do_not_fit() -> None:
    message = r"np broadcasting failed on 'Op\(ai.onnx.Add:7, inputs=\[in0, in1\], outputs=\[out0\]\)', frames \[2, 3\] and \[2, 5\]"
    with pytest.raises(popart_exception, match=message + " are not aligned"):
        run("Add", [X, np.ones((2, 5), F)])
    with pytest.raises(popart_exception, match="frames"):
        run("Less", [X, np.ones((2, 5), F)])


def test_matrix_products_that_do_not_fit() -> None:
    with pytest.raises(popart_exception, match=r"contracting dimensions unequal: lhs 'in0' \[2 3\], rhs 'in1' \[2 3\]"):
        run("MatMul", [X, X])
    with pytest.raises(popart_exception, match="doesn't support scalar tensor in0 as the lhs input"):
        run("MatMul", [np.ones((), F), X])


def test_a_magnitudes_gradient_at_0_is_0() -> None:
    x = np.array([-2, 0, 2], F)
    np.testing.assert_array_equal(gradient("Abs", [x]), [-1, 0, 1])
    np.testing.assert_array_equal(gradient("ReduceL1", [x]), [-1, 0, 1])


def test_both_operands_get_an_extremes_gradient_if_they_equal_it() -> None:
    a, b = np.array([1, 2, np.inf], F), np.array([1, 1, np.inf], F)
    np.testing.assert_array_equal(run("Max", [a, b])[0], [1, 2, np.inf])
    np.testing.assert_array_equal(gradient("Max", [a, b]), [1, 1, 1])
    np.testing.assert_array_equal(gradient("Max", [a, b], position=1), [1, 0, 1])
    np.testing.assert_array_equal(gradient("Min", [a, b[:1]], position=1), [1 + 1 + 1])


def test_no_axes_reduce_nothing() -> None:
    np.testing.assert_array_equal(run("ReduceSumSquare", [X], axes=[])[0], X * X)
    np.testing.assert_array_equal(run("ReduceSum", [X])[0], [[X.sum()]])
    with pytest.raises(popart_exception, match=r"Axis 2 is out of acceptable range \[-2, 1\]"):
        run("ReduceSum", [X], axes=[2])


def test_gradients_of_powers() -> None:
    x, y = np.array([2, -2, 0, np.inf], F), np.array([3, 2, 2, 0], F)
    np.testing.assert_allclose(run("Pow", [x, y])[0], [8, 4, 0, 1])
    np.testing.assert_allclose(gradient("Pow", [x, y]), [12, -4, 0, 0])
    np.testing.assert_allclose(gradient("Pow", [x, y], position=1), [8 * np.log(2), np.nan, 0, np.inf], 1e-6)


def test_the_odd_one_of_a_transposed_convolutions_padding() -> None:
    x, w = np.array([[[[1, 2], [3, 4]]]], F), np.array([[[[1, 2], [2, 1]]]], F)
    first, last = [[1, 4], [5, 15]], [[15, 10], [11, 4]]
    for padding, expected in (("NOTSET", first), ("SAME_LOWER", first), ("SAME_UPPER", last)):
        y = run("ConvTranspose", [x, w], version=11, output_shape=[2, 2], auto_pad=padding)[0]
        np.testing.assert_array_equal(y[0, 0], expected)


def test_nothing_gathered_has_a_gradient_of_zeros() -> None:
    nothing = np.zeros((0, 2), np.int32)
    assert run("Gather", [X, nothing], axis=1)[0].shape == (2, 0, 2, *X.shape[2:])
    jaxpr = jax.make_jaxpr(
        lambda x: jax.grad(lambda x: run_graph(node_graph("Gather", 2, version=10), [x, nothing], GraphRun())[0].sum())(x)
    )(X)
    assert jaxpr.jaxpr.eqns[-1].primitive.name != "broadcast_in_dim"  # a session takes that for no gradient at all


@each(
    "op_type, inputs, version, attributes, message",
    [
        ("Transpose", [X], 10, {"perm": [0]}, r"Rank of permutation tensor \[0\], rank 1 must be equal to rank of input tensor"),
        ("Dropout", [X], 10, {"ratio": 1.5}, "ratio value 1.5 is not valid"),
        (
            "AveragePool",
            [X[None, None]],
            10,
            {"kernel_shape": [2, 2], "count_include_pad": 1, "pads": [0, 0, 0, 1]},
            "`count_include_pad` is not supported where there is padding, which is .0 0 0 1.",
        ),
        (
            "AveragePool",
            [X[None, None]],
            10,
            {"kernel_shape": [2, 2], "count_include_pad": 1, "auto_pad": "SAME_UPPER"},
            "`count_include_pad` is not",
        ),
        ("MaxPool", [X[None, None]], 10, {"kernel_shape": [1, 1], "dilations": [2, 2]}, "Dilations of value other than 1"),
        ("RandomNormal", [], 10, {"shape": [2], "seed": 1.0}, "Optional seed attribute is not supported"),
        ("RandomUniform", [], 10, {"shape": [2], "dtype": 11}, "The data type DOUBLE is not supported"),
        ("Clip", [X, np.zeros((), F)], 11, {}, r"currently only supports constant min/max parameters. Input 'min' \(in1\) has no data."),
    ],
)
def test_what_is_refused(op_type: str, inputs: Any, version: int, attributes: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        run(op_type, inputs, version=version, **attributes)


@each(
    "attributes", [{}, {"pads": [0, 0, 0, 0]}, {"auto_pad": "VALID"}, {"strides": [1, 2], "auto_pad": "SAME_LOWER", "kernel_shape": [1, 2]}]
)
def test_padding_that_is_none_may_be_counted(attributes: dict[str, Any]) -> None:
    """An average over windows without padding is the same whether padding counts."""
    x, given = np.arange(8, dtype=F).reshape(1, 1, 2, 4), {"kernel_shape": [1, 2], "strides": [1, 2], **attributes}
    (found,) = run("AveragePool", [x], version=10, count_include_pad=1, **given)
    np.testing.assert_array_equal(found, x.reshape(1, 1, 2, 2, 2).mean(-1))


@each(
    "op_type, shape, message",
    [
        ("Expand", [4, 3], "Expand shape constraint"),
        ("Reshape", [-1, -1], "use -1"),
        ("Tile", [1, -1], "Values must be non-negative"),
        ("Tile", [1], "one element for each dimension"),
    ],
)
def test_shapes_that_are_refused(op_type: str, shape: list[int], message: str) -> None:
    graph = node_graph(op_type, 2, version=10)
    with pytest.raises(popart_exception, match=message):
        run_graph(graph, [X, np.array(shape)], GraphRun())


@each("version, mode, places", [(10, "pytorch", [0, 0, 0, 0, 1, 1]), (11, "pytorch", [0, 0, 0, 0, 1, 1])])
def test_pytorchs_nearest_element(version: int, mode: str, places: list[int]) -> None:
    x, scales = np.array([[5, 7]], F), np.array([1, 3.0001], F)
    inputs = [x, scales] if version == 10 else [x, np.zeros(0, F), scales]
    graph = node_graph("Resize", len(inputs), version=version, nearest_mode=mode)
    np.testing.assert_array_equal(run_graph(graph, inputs, GraphRun())[0], x[:, places])


def test_a_resize_takes_scales_or_sizes() -> None:
    graph, x = node_graph("Resize", 4, version=11, mode="linear"), np.array([[0, 2]], F)
    nothing, scales, sizes = np.zeros(0, F), np.array([1, 2], F), np.array([1, 4])
    for given in ([x, nothing, scales, nothing], [x, nothing, nothing, sizes]):
        np.testing.assert_allclose(run_graph(graph, given, GraphRun())[0], [[0, 0.5, 1.5, 2]])
    with pytest.raises(popart_exception, match="Resize op has inputs for `sizes` and `scales`"):
        run_graph(graph, [x, nothing, scales, sizes], GraphRun())


@each("backwards", [0, 1])
def test_a_scan_keeps_the_scanned_axis(backwards: int) -> None:
    nodes = [
        helper.make_node("Add", ["s", "x"], ["sum"]),
        helper.make_node("Concat", ["x", "sum"], ["both"], axis=0),
    ]
    value = helper.make_empty_tensor_value_info
    body = helper.make_graph(nodes, "body", [value("s"), value("x")], [value("sum"), value("both")])
    node = helper.make_node("Scan", ["in0", "in1"], ["o", "p"], body=body, num_scan_inputs=1, scan_input_directions=[backwards])
    whole = helper.make_graph([node], "test", [value("in0"), value("in1")], [value("o"), value("p")])
    graph = Preparation(functions={}, left=10, dialect=DIALECT).graph(whole, {"": 10})
    last, rows = run_graph(graph, [np.array([10], F), np.array([1, 2, 4], F)], GraphRun())
    np.testing.assert_array_equal(last, [17])
    np.testing.assert_array_equal(rows, [4, 14, 2, 16, 1, 17] if backwards else [1, 11, 2, 13, 4, 17])


def test_updates_without_indices_are_left_out() -> None:
    x, index, updates = np.zeros((3, 5), F), np.array([[0, 1, 2, 0]], np.int32), np.arange(10, dtype=F).reshape(2, 5)
    expected = x.copy()
    expected[[0, 1, 2, 0], range(4)] = updates[0, :4]
    np.testing.assert_array_equal(run("Scatter", [x, index, updates])[0], expected)


@each(
    "attributes, message",
    [
        ({"activations": ["Affine"]}, "Activation type 'Affine' is not supported"),
        ({"activations": ["Tanh", "Tanh"]}, "only supports 1 activation, 2 were specified"),
        ({"activation_alpha": [1.0]}, "Attribute `activation_alpha' of .* is not supported"),
        ({"clip": 1.0}, "Attribute `clip' of .* is not supported"),
        ({"direction": "reverse"}, "only supports `forward' direction"),
        ({"hidden_size": 2}, "hidden_size 2 of .* does not match"),
    ],
)
def test_recurrent_networks_that_are_refused(attributes: dict[str, Any], message: str) -> None:
    one = np.ones((1, 1, 1), F)
    with pytest.raises(popart_exception, match=message):
        run("RNN", [one, one, one], **attributes)
