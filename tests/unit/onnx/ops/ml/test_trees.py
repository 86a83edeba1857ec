"""Tree ensembles: random forests against ONNX Runtime, and what it gets wrong by hand."""

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.one_node import by_onnxruntime, check_node, node_graph, run_node
from tilestep.onnx import import_onnx
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

F = np.float32
ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(seed: int, prefix: str, targets: int, *, trees: int = 4) -> dict[str, Any]:
    """Random trees, whose leaves have a weight of each target."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    nodes["missing_value_tracks_true"] = []
    weights: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, depth: int, counter: list[int]) -> int:
        number, at = counter[0], len(nodes["modes"])
        counter[0] += 1
        leaf = depth == 0 or rng.random() < 0.2
        for name, value in {
            "treeids": tree,
            "nodeids": number,
            "featureids": int(rng.integers(3)),
            "values": float(rng.integers(-2, 3)),
            "modes": "LEAF" if leaf else str(rng.choice(MODES)),
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": int(rng.integers(2)),
        }.items():
            nodes[name].append(value)
        if leaf:
            for target in range(targets):
                for name, value in {"treeids": tree, "nodeids": number, "ids": target, "weights": float(rng.normal())}.items():
                    weights[name].append(value)
        else:
            nodes["truenodeids"][at] = grow(tree, depth - 1, counter)
            nodes["falsenodeids"][at] = grow(tree, depth - 1, counter)
        return number

    for tree in range(trees):
        grow(tree, 4, [0])
    return {f"nodes_{name}": value for name, value in nodes.items()} | {f"{prefix}_{name}": value for name, value in weights.items()}


def rows(seed: int = 0) -> np.ndarray[Any, Any]:
    """Small whole numbers, so that comparisons also find equal ones, and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (12, 3)).astype(F)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.slow
@each("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@each("version, targets", [(1, 1), (1, 3), (3, 2)])
def test_regressors_as_onnxruntime(aggregate: str, version: int, targets: int) -> None:
    options = forest(targets, "target", targets) | {
        "n_targets": targets,
        "aggregate_function": aggregate,
        "base_values": [0.5, -1.0, 2.0][:targets],
    }
    (want,) = by_onnxruntime("TreeEnsembleRegressor", [rows()], version=version, domain=ML, out_types=[1], **options)

    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-6)
        assert outputs[0].dtype == F

    check_node("TreeEnsembleRegressor", [rows()], check, ("jit",), version=version, domain=ML, **options)


@pytest.mark.slow
@each("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@each("base", [[], [0.3, -0.2, 0.1]])
def test_classifiers_as_onnxruntime(transform: str, base: list[float]) -> None:
    options = (
        forest(5, "class", 3) | {"classlabels_int64s": [7, 8, 9], "post_transform": transform} | ({"base_values": base} if base else {})
    )
    want = by_onnxruntime("TreeEnsembleClassifier", [rows()], version=1, domain=ML, outputs=2, out_types=[7, 1], **options)
    is_classified(want, rows(), **options)


def is_classified(want: list[Any], x: Any, **options: Any) -> None:
    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_array_equal(outputs[0], want[0])
        np.testing.assert_allclose(outputs[1], want[1], rtol=1e-5, atol=1e-6)

    check_node("TreeEnsembleClassifier", [x], check, ("jit",), version=1, domain=ML, outputs=2, **options)


def stump(class_id: int, weights: list[float], **options: Any) -> dict[str, Any]:
    """x[0] <= 0.2 ? weights[0] : weights[1], both of one class."""
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.2, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [class_id, class_id],
        "class_weights": weights,
        "classlabels_int64s": [7, 9],
        **options,
    }


def test_labels_that_are_text_are_known_only_eagerly() -> None:
    options = stump(0, [0.3, 0.8])
    del options["classlabels_int64s"]
    options["classlabels_strings"] = ["no", "yes"]
    x = np.array([[0.0], [1.0]], F)
    assert run_node("TreeEnsembleClassifier", [x], version=3, domain=ML, outputs=2, **options)[0].tolist() == ["no", "yes"]
    with pytest.raises(OnnxError, match="the class, because its labels are text"):
        run_node("TreeEnsembleClassifier", [x], "jit", version=3, domain=ML, outputs=2, **options)


def test_tensors_of_doubles_take_the_place_of_floats() -> None:
    options = stump(0, [0.0, 0.0]) | {"n_targets": 1}
    values = {
        name: options.pop(name)
        for name in ("nodes_values", "class_weights", "classlabels_int64s", "class_ids", "class_nodeids", "class_treeids")
    }
    options |= {f"target_{name}": values[f"class_{name}"] for name in ("ids", "nodeids", "treeids")}
    options["nodes_values_as_tensor"] = helper.make_tensor("v", 11, [3], [0.1, 0.0, 0.0])
    options["target_weights_as_tensor"] = helper.make_tensor("w", 11, [2], [1.0, 2.0])
    x = np.array([[0.1], [np.nextafter(0.1, 1)]])  # the same as float32
    assert np.asarray(run_node("TreeEnsembleRegressor", [x], version=3, domain=ML, **options)[0]).tolist() == [[1], [2]]


def test_an_ensemble_of_doubles_warns_of_nothing() -> None:
    # JAX warned of a truncated float64 in a program of 32 bits, after the same array had been used with 64.
    doubles = {
        "leaf_weights": helper.make_tensor("w", 11, [4], [1, 2, 3, 4.0]),
        "nodes_splits": helper.make_tensor("s", 11, [3], [0.0, 2.0, 0.0]),
        "membership_values": helper.make_tensor("n", 11, [3], [1.0, 5.0, np.nan]),
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain=ML, **ensemble(**doubles))
    x = np.array([[5, 3], [2, 2]], np.float64)
    values = [helper.make_tensor_value_info(name, 11, [2, 2]) for name in "xy"]
    made = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid(ML, 5)])
    found = import_onnx(made)
    assert found(x)[0].tolist() == found.fn({}, x)[0].tolist() == [[2, 4], [3, 4]]


def ensemble(**options: Any) -> dict[str, Any]:
    """x[0] in {1, 5} ? (x[1] < 2 ? 10 : 20) : 30, and one tree that is a leaf."""
    made: dict[str, Any] = {
        "tree_roots": [0, 2],
        "n_targets": 2,
        "nodes_modes": helper.make_tensor("m", 2, [3], [6, 1, 0]),
        "nodes_splits": helper.make_tensor("s", 1, [3], [0.0, 2.0, 0.0]),
        "nodes_featureids": [0, 1, 0],
        "nodes_truenodeids": [1, 0, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_weights": helper.make_tensor("w", 1, [4], [10.0, 20.0, 30.0, 5.0]),
        "leaf_targetids": [0, 0, 0, 1],
        "membership_values": helper.make_tensor("n", 1, [3], [1.0, 5.0, np.nan]),
    }
    return made | options


SUMS = np.array([[10, 5], [20, 5], [30, 5], [30, 5]], F)


@each(
    "options, want",
    [
        ({}, SUMS),
        ({"nodes_missing_value_tracks_true": [1, 0, 0]}, [*SUMS[:3], [10, 5]]),
        ({"aggregate_function": 2, "post_transform": 2}, 1 / (1 + np.exp(-SUMS))),
    ],
)
def test_a_tree_ensemble_with_membership(options: dict[str, Any], want: Any) -> None:
    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_allclose(outputs[0], want, rtol=1e-6)

    x = np.array([[1, 0], [5, 2], [2, 0], [np.nan, 0]], F)
    check_node("TreeEnsemble", [x], check, ("jit",), version=5, domain=ML, **ensemble(**options))


def test_a_forest_is_one_loop_of_a_program() -> None:
    options = forest(1, "target", 1, trees=30) | {"n_targets": 1}
    graph = node_graph("TreeEnsembleRegressor", [0], version=1, domain=ML, **options)
    text = str(jax.make_jaxpr(lambda x: run_graph(graph, [x], GraphRun()))(np.zeros((4, 3), F)))
    assert text.count("scan[") + text.count("while[") == 1


@each(
    "change, message",
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "two ways lead to one node|belong to no tree"),
        ({"nodes_truenodeids": [2, 0, 0]}, "two ways lead to one node|none leads to"),
        ({"nodes_truenodeids": [9, 0, 0]}, "tree 0 has no node 9"),
        ({"nodes_modes": ["BRANCH_X", "LEAF", "LEAF"]}, "nodes_modes has 'BRANCH_X'"),
        ({"nodes_values": [0.2]}, "3 nodes have 3 features, 1 values"),
        ({"class_ids": [0, 5]}, "targets of 2"),
        ({"nodes_featureids": [4, 0, 0]}, "needs .rows, 5 features or more."),
        ({"nodes_featureids": [-1, 0, 0]}, "its 3 nodes have"),
        ({"nodes_nodeids": [0, 1, 1]}, "same number"),
        ({"base_values": [1.0, 2.0, 3.0]}, "3 base_values, and 2 classes"),
        ({"post_transform": "TANH"}, "post_transform 'TANH'"),
        ({"classlabels_int64s": []}, "integers or texts as class labels"),
    ],
)
def test_damaged_forests_are_refused(change: dict[str, Any], message: str) -> None:
    options = {name: value for name, value in (stump(0, [0.3, 0.8]) | change).items() if value != []}
    with pytest.raises(OnnxError, match=message):
        run_node("TreeEnsembleClassifier", [np.zeros((2, 1), F)], version=1, domain=ML, outputs=2, **options)
