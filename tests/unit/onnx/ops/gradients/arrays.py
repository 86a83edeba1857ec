"""Cases of operators that move elements, of sequences, and of control."""

from typing import Any

import numpy as np
from onnx import helper

from tests.unit.onnx.ops.gradients.slopes import ML, TRAINING, Case, case, uniform
from tests.unit.onnx.ops.one_node import model, prepared
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.values import SequenceValue

X = uniform(2, 3, 4)
Y = uniform(2, 3, 4, seed=1)
IMAGE = uniform(2, 4, 4, 4, seed=2)
PAIR = SequenceValue((X, Y))
ROWS = np.array([1, 0, 1])
INDEX = np.array([[[0, 2, 1, 0]], [[1, 1, 2, 0]]])
ZERO, ONE = np.array(0), np.array(1)
TEXT_OF_ADAM = {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-3, "norm_coefficient": 0.1}


def gradient() -> Graph:
    """The gradient of a sum of cubes."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Mul", ["square", "x"], ["cube"]),
        helper.make_node("Gradient", ["x"], ["out"], domain=TRAINING, xs=["x"], y="cube"),
    ]
    return prepared(nodes, ["x"], ["out"], {"": 21, TRAINING: 1})


BRANCHES = """g (bool c, double[2, 3, 4] x) => (double[2, 3, 4] y) {
  y = If (c) <then_branch = t () => (double[2, 3, 4] a) { a = Mul(x, x) }, else_branch = e () => (double[2, 3, 4] b) { b = Exp(x) }> }"""
TURNS = """g (int64 n, bool c, double[2, 3, 4] x) => (double[2, 3, 4] y, double[k, 2, 3, 4] z) {
  y, z = Loop (n, c, x) <body = b (int64 i, bool on, double[2, 3, 4] s) => (bool still, double[2, 3, 4] t, double[2, 3, 4] row)
    { still = Identity(on) t = Mul(s, x) row = Sin(t) }> }"""
ROWWISE = """g (double[3, 4] s, double[2, 3, 4] x) => (double[3, 4] y, double[2, 3, 4] z) {
  y, z = Scan <num_scan_inputs = 1, body = b (double[3, 4] t, double[3, 4] r) => (double[3, 4] u, double[3, 4] o)
    { u = Mul(t, r) o = Sin(u) }> (s, x) }"""
MAPPED = """g (seq(double[2, 3, 4]) x) => (seq(double[2, 3, 4]) y) {
  y = SequenceMap (x) <body = b (double[2, 3, 4] a) => (double[2, 3, 4] o) { o = Mul(a, a) }> }"""


def _scan_8() -> Graph:
    body = helper.make_graph(
        [helper.make_node("Mul", ["t", "r"], ["u"]), helper.make_node("Sin", ["u"], ["o"])],
        "body",
        [helper.make_empty_tensor_value_info(name) for name in "tr"],
        [helper.make_empty_tensor_value_info(name) for name in "uo"],
    )
    node = helper.make_node("Scan", ["", "s", "x"], ["y", "z"], body=body, num_scan_inputs=1)
    return prepared([node], ["s", "x"], ["y", "z"], {"": 8})


def _of(name: str, graph: Graph, *inputs: Any) -> Case:
    return case(name, *inputs, graph=graph)


SMOOTH: list[Case] = [
    case("ArrayFeatureExtractor", X, ROWS, domain=ML),
    case("CenterCropPad", X, np.array([2, 2, 5])),
    case("Compress", X, np.array([True, False, True]), axis=1),
    case("Concat", X, Y, axis=1),
    case("ConcatFromSequence", PAIR, axis=1, new_axis=1),
    case("DepthToSpace", IMAGE, blocksize=2),
    case("Einsum", X, Y, equation="abc,abd->acd"),
    case("Expand", X[:, :1], np.array([2, 3, 4])),
    case("FeatureVectorizer", X[0], Y[0, :, :2], domain=ML, inputdimensions=[4, 2]),
    case("Flatten", X),
    case("Gather", X, ROWS, axis=1),
    case("GatherElements", X, INDEX, axis=1),
    case("GatherND", X, np.array([[0, 1], [1, 2], [1, 2]])),
    case("Imputer", X[0], domain=ML, imputed_value_floats=[0.5], replaced_value_float=9.0),
    case("OneHot", np.array([0, 2, -1]), np.array(3), np.array([0.5, 2.0])),
    case("Optional", X),
    case("OptionalGetElement", X),
    case("Pad", X, np.array([1, 0, 0, 0, 1, 2]), np.array(0.5), fixed=(1,)),
    case("Pad", X, np.array([1, 0, 0, 1, 1, 2]), mode="reflect"),
    case("Pad", X, version=2, pads=[1, 0, 0, 0, -1, 2], mode="edge"),
    case("Reshape", X, np.array([4, 6])),
    case("Reshape", X, version=1, shape=[4, 6]),
    case("ReverseSequence", X, np.array([1, 2, 2, 1]), batch_axis=2, time_axis=0),
    case("Scatter", X, INDEX, Y[:, :1], version=9, axis=1),
    case("ScatterElements", X, INDEX, Y[:, :1], axis=1),
    *(case("ScatterElements", X, INDEX, Y[:, :1], axis=1, reduction=how) for how in ("add", "mul", "max", "min")),
    case("ScatterND", X, np.array([[0, 1], [1, 2]]), Y[0, :2]),
    *(case("ScatterND", X, np.array([[0, 1], [1, 2], [1, 2]]), Y[0], reduction=how) for how in ("add", "mul", "max", "min")),
    case("SequenceAt", PAIR, ONE),
    case("SequenceConstruct", X, Y),
    case("SequenceErase", PAIR, ZERO),
    case("SequenceInsert", PAIR, X + 1, ONE),
    case("Slice", X, np.array([3]), np.array([0]), np.array([2]), np.array([-2])),
    case("Slice", X, version=1, starts=[1], ends=[3], axes=[1]),
    case("SpaceToDepth", IMAGE, blocksize=2),
    case("Split", X, np.array([1, 3]), axis=2, outputs=2),
    case("Split", X, version=11, axis=2, split=[1, 3], outputs=2),
    case("SplitToSequence", X, np.array([1, 2]), axis=1),
    case("Squeeze", X[:, :1], np.array([1])),
    case("Squeeze", X[:, :1], version=11, axes=[1]),
    case("TensorScatter", X, Y[:, :1], np.array([1, 2]), axis=1),
    case("Tile", X, np.array([2, 1, 2])),
    case("Tile", X, np.array(2), np.array(1), version=1),
    case("TopK", X, np.array([2]), axis=1, outputs=2),
    case("TopK", X, version=1, axis=1, k=2, outputs=2),
    case("Transpose", X, perm=[2, 0, 1]),
    case("Trilu", X, ONE, upper=0),
    case("Unique", X, outputs=4),
    case("Unique", X, outputs=4, sorted=0),
    case("Unsqueeze", X, np.array([1])),
    case("Unsqueeze", X, version=11, axes=[1]),
    case("ZipMap", X[0, :2], domain=ML, classlabels_int64s=[1, 2, 3, 4]),
    case("Upsample", IMAGE[:1], np.array([1, 1, 2, 2], np.float32), version=9, mode="linear"),
    case("Upsample", IMAGE[:1], version=7, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
    case("Upsample", IMAGE[:1], version=1, height_scale=2.0, width_scale=2.0, mode="bilinear"),
    *(
        case("Resize", IMAGE[:1], None, np.array([1, 1, 1.5, 0.5], np.float32), mode=mode, antialias=antialias)
        for mode, antialias in (("nearest", 0), ("linear", 0), ("cubic", 0), ("linear", 1))
    ),
    case("Resize", IMAGE[:1], np.array([1, 1, 2, 2], np.float32), version=10, mode="linear"),
    _of("If", model(BRANCHES), np.array(True), X),
    _of("If", model(BRANCHES), np.array(False), X),
    _of("Loop", model(TURNS), np.array(3), np.array(True), X),
    _of("Scan", model(ROWWISE), X[0], Y),
    _of("Scan", _scan_8(), X[:, 0], Y),
    _of("SequenceMap", model(MAPPED), PAIR),
    Case(name="Gradient", domain=TRAINING, inputs=[X], graph=gradient()),
    case("Adagrad", np.array(0.1), ONE, X, Y, np.abs(X), domain=TRAINING, outputs=2, epsilon=1e-3, norm_coefficient=0.1),
    case("Adam", np.array(0.1), ONE, X, Y, X, np.abs(X), domain=TRAINING, outputs=3, **TEXT_OF_ADAM),
    case("Momentum", np.array(0.1), ONE, X, Y, X, domain=TRAINING, outputs=2, alpha=0.9, beta=0.5, mode="nesterov", norm_coefficient=0.1),
]

KINKS: list[Case] = [
    case("TopK", np.ones((1, 3)), np.array([2]), outputs=2, at="jump"),
    case("ScatterElements", np.zeros((1, 3)), np.array([[1, 1]]), np.zeros((1, 2)), axis=1, reduction="max", at="kink"),
    case("ScatterND", np.zeros(3), np.array([[1], [1]]), np.zeros(2), reduction="mul", at="kink"),
    case("ReverseSequence", X, np.array([1, 2, 2, 1]), batch_axis=2, time_axis=0, at="kink"),
]
