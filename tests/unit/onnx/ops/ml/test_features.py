"""Features, encoders, maps, linear models and support vector machines of ai.onnx.ml: against ONNX Runtime, or by hand."""

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.one_node import by_onnxruntime, check_node, node_graph, run_node, run_nodes
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.values import SequenceValue

F, INT = np.float32, np.int64
ML = "ai.onnx.ml"
X = np.array([[1, -2, 3], [0, 0, 0], [-1, -2, -5]], F)
NAN = float("nan")


def text(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, object)


CASES: list[tuple[str, int, list[Any], dict[str, Any]]] = [
    ("ArrayFeatureExtractor", 1, [X, np.array([2, 0])], {}),
    ("ArrayFeatureExtractor", 1, [X[0], np.array([[2, 0]])], {}),
    ("ArrayFeatureExtractor", 1, [np.arange(12, dtype=INT).reshape(2, 2, 3), np.array([1])], {}),
    ("Binarizer", 1, [X], {"threshold": -1.5}),
    ("Scaler", 1, [X], {"offset": [1.0], "scale": [2.0]}),
    ("Scaler", 1, [X.astype(INT)], {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 0.5, 1.0]}),
    ("Normalizer", 1, [X], {"norm": "MAX"}),
    ("Normalizer", 1, [X], {"norm": "L1"}),
    ("Normalizer", 1, [X.astype(np.int32)], {"norm": "L2"}),
    ("Normalizer", 1, [X[0]], {"norm": "L1"}),
    ("Imputer", 1, [np.array([[1, NAN], [NAN, 2]], F)], {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": NAN}),
    ("Imputer", 1, [np.array([[1, 3], [3, 2]], INT)], {"imputed_value_int64s": [9], "replaced_value_int64": 3}),
    ("FeatureVectorizer", 1, [X, X[:, :2]], {"inputdimensions": [3, 2]}),
    ("OneHotEncoder", 1, [np.array([1.5, 2.9, -1.2, NAN], F)], {"cats_int64s": [1, 2, -1]}),
    ("OneHotEncoder", 1, [np.array([[1, 2], [3, 1]], INT)], {"cats_int64s": [1, 3], "zeros": 1}),
    ("OneHotEncoder", 1, [text("a", "c", "b")], {"cats_strings": ["a", "b"]}),
    ("CategoryMapper", 1, [text("a", "c", "b")], {"cats_int64s": [5, 6], "cats_strings": ["a", "b"], "default_int64": -7}),
    ("CategoryMapper", 1, [np.array([[6, 1]], INT)], {"cats_int64s": [5, 6], "cats_strings": ["a", "b"], "default_string": "none"}),
    ("LabelEncoder", 1, [text("b", "z")], {"classes_strings": ["a", "b"]}),
    ("LabelEncoder", 1, [np.array([1, 5], INT)], {"classes_strings": ["a", "b"], "default_string": "?"}),
    ("LabelEncoder", 2, [np.array([1, 2, 3], INT)], {"keys_int64s": [1, 1, 2], "values_int64s": [5, 6, 7]}),
    ("LabelEncoder", 4, [np.array([1.5, NAN, 2.5], F)], {"keys_floats": [NAN, 1.5], "values_floats": [0.5, 2.0], "default_float": -3.0}),
    ("LabelEncoder", 2, [np.array([3, 4], INT)], {"keys_int64s": [4], "values_strings": ["four"], "default_string": "other"}),
    ("LabelEncoder", 2, [text("x", "y")], {"keys_strings": ["y"], "values_floats": [0.5]}),
    (
        "LabelEncoder",
        4,
        [np.array([1.5, NAN], np.float64)],
        {"keys_tensor": helper.make_tensor("k", 11, [2], [NAN, 1.5]), "values_tensor": helper.make_tensor("v", 7, [2], [4, 5])},
    ),
]


@each("name, version, inputs, options", CASES)
def test_features_as_onnxruntime(name: str, version: int, inputs: list[Any], options: dict[str, Any]) -> None:
    (want,) = by_onnxruntime(name, inputs, version=version, domain=ML, **options)
    is_text = want.dtype.kind in "OU"

    def check(way: str, outputs: list[Any]) -> None:
        (got,) = outputs
        assert np.shape(got) == want.shape
        if is_text:
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=1e-6)
            assert way == "jit" or got.dtype == want.dtype

    ways = ("known",) if is_text else ("known", "wide", "jit")
    check_node(name, inputs, check, ways, version=version, domain=ML, static=[0] if is_text else None, **options)


def test_the_last_of_equal_keys_counts_from_version_4_on() -> None:
    keys = {"keys_int64s": [1, 1, 2], "values_int64s": [5, 6, 7]}
    assert run_node("LabelEncoder", [np.array([1, 2])], version=3, domain=ML, **keys)[0].tolist() == [5, 7]
    assert run_node("LabelEncoder", [np.array([1, 2])], version=4, domain=ML, **keys)[0].tolist() == [6, 7]


def test_a_default_of_a_label_encoder_may_be_a_tensor() -> None:
    tensors = {
        "keys_tensor": helper.make_tensor("k", 8, [2], [b"a", b"b"]),
        "values_tensor": helper.make_tensor("v", 5, [2], [1, 2]),
        "default_tensor": helper.make_tensor("d", 5, [1], [42]),
    }
    (got,) = run_node("LabelEncoder", [text("b", "c")], version=4, domain=ML, **tensors)
    assert got.tolist() == [2, 42]
    assert got.dtype == np.int16


@each(
    "name, inputs, options, message",
    [
        ("OneHotEncoder", [np.array([1, 7])], {"cats_int64s": [1], "zeros": 0}, "an element has no category"),
        ("OneHotEncoder", [np.array([1, 7])], {}, "it needs one of cats_int64s, cats_strings, and has none"),
        ("ArrayFeatureExtractor", [X, np.array([3])], {}, "indices .3. along the last axis of"),
        ("Scaler", [X], {"offset": [1.0, 2.0]}, "offset has 2 numbers, and needs 1 or 3"),
        ("Normalizer", [X], {"norm": "L3"}, "norm 'L3'"),
        ("Imputer", [X], {"imputed_value_int64s": [1]}, "0 values for elements of float32"),
        ("FeatureVectorizer", [X, X], {"inputdimensions": [3, 2]}, "the inputs have .3, 3."),
        ("LinearRegressor", [X], {"coefficients": [1.0]}, "1 coefficients and 0 intercepts for 1 scores of 3 features"),
        ("LinearClassifier", [X], {"coefficients": [1.0] * 6, "classlabels_ints": [1, 2, 3]}, "3 labels, and 2 scores"),
        ("SVMRegressor", [X], {"coefficients": [1.0], "n_supports": 1, "support_vectors": [1.0]}, "1 elements, and need 1 x 3"),
        ("SVMClassifier", [X], {"coefficients": [1.0] * 6, "classlabels_ints": [1, 2]}, "make it a LinearClassifier"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, inputs: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node(name, inputs, version=1, domain=ML, outputs=2 if "Classifier" in name else 1, **options)


# ---- maps


def test_maps_come_of_rows_and_become_rows() -> None:
    x = np.array([[0.25, 0.75], [1, 0]], F)
    (maps,) = run_node("ZipMap", [x], "known", version=1, domain=ML, classlabels_strings=["no", "yes"])
    assert isinstance(maps, SequenceValue)
    assert [dict(row) for row in maps] == [{"no": 0.25, "yes": 0.75}, {"no": 1.0, "yes": 0.0}]
    (numbered,) = run_node("ZipMap", [x[0]], "jit", version=1, domain=ML, classlabels_int64s=[3, 1])
    assert {key: float(value) for key, value in numbered[0].items()} == {3: 0.25, 1: 0.75}
    (row,) = run_node("DictVectorizer", [maps[0]], version=1, domain=ML, string_vocabulary=["yes", "maybe", "no"])
    assert row.tolist() == [[0.75, 0, 0.25]]
    with pytest.raises(OnnxError, match="has the key 'no', which the vocabulary doesn't have"):
        run_node("DictVectorizer", [maps[0]], version=1, domain=ML, string_vocabulary=["yes"])


@each(
    "values, options, want",
    [
        ({3: 0.5, 1: 2.0}, {}, [[2, 0.5]]),
        ({3: 0.5, 1: 2.0}, {"cast_to": "TO_INT64"}, [[2, 0]]),
        ({3: "7", 1: "2.5"}, {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 5}, [[0, 2.5, 0, 7, 0]]),
        ({0: 1.5}, {"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 2}, [["1.5", ""]]),
    ],
)
def test_cast_map(values: dict[int, Any], options: dict[str, Any], want: list[Any]) -> None:
    assert run_node("CastMap", [values], version=1, domain=ML, **options)[0].tolist() == want


def test_maps_of_traced_values_stay_in_a_program() -> None:
    graph = node_graph("CastMap", [0], version=1, domain=ML)
    assert jax.jit(lambda x: run_graph(graph, [{2: x, 1: 2 * x}], GraphRun())[0])(3.0).tolist() == [[6, 3]]


# ---- linear models and support vector machines


@each("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@each("classes", [1, 3])
def test_linear_classifiers_as_onnxruntime(transform: str, classes: int) -> None:
    if transform == "PROBIT" and classes == 1:
        return  # refused, because ONNX Runtime's result has no meaning
    rng = np.random.default_rng(0)
    scale = 0.05 if transform == "PROBIT" else 1.0  # a probit wants scores between 0 and 1
    options = {
        "coefficients": (rng.normal(size=classes * 3) * scale).tolist(),
        "intercepts": [0.5] * classes if scale < 1 else rng.normal(size=classes).tolist(),
        "classlabels_ints": [7, 8, 9][: max(2, classes)],
        "post_transform": transform,
    }
    want = by_onnxruntime("LinearClassifier", [X], version=1, domain=ML, outputs=2, out_types=[7, 1], **options)
    labels_and_scores_are(want, "LinearClassifier", X, **options)


def labels_and_scores_are(want: list[Any], name: str, x: Any, **options: Any) -> None:
    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_array_equal(outputs[0], want[0])
        np.testing.assert_allclose(outputs[1], want[1], rtol=1e-4, atol=1e-5)

    check_node(name, [x], check, ("jit",), version=1, domain=ML, outputs=2, **options)


def test_coefficients_may_be_more_than_the_features_need() -> None:
    options: dict[str, Any] = {"coefficients": np.arange(1.0, 10).tolist(), "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [0, 1, 2]}
    for x in (np.array([[1, 2]], F), np.array([1, 2], F), np.array([[1, 2], [3, 4]], F)):
        expected = by_onnxruntime("LinearClassifier", [x], version=1, domain=ML, outputs=2, **options)
        found = run_node("LinearClassifier", [x], version=1, domain=ML, outputs=2, **options)
        assert [np.asarray(one).tolist() for one in found] == [one.tolist() for one in expected]


def vectors(count: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(F).ravel().tolist()


@each("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@each("one_class", [0, 1])
def test_svm_regressors_as_onnxruntime(kernel: str, one_class: int) -> None:
    options = {
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.1, 3.0],
        "n_supports": 4,
        "support_vectors": vectors(4),
        "coefficients": [0.1, -0.2, 0.3, 0.4],
        "rho": [0.1],
        "one_class": one_class,
    }
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(F)
    (want,) = by_onnxruntime("SVMRegressor", [x], version=1, domain=ML, out_types=[1], **options)

    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_allclose(outputs[0], want, rtol=1e-4, atol=1e-6)

    check_node("SVMRegressor", [x], check, ("jit",), version=1, domain=ML, **options)


@each("transform", ["NONE", "LOGISTIC"])
@each("counts", [[2, 3], [1, 2, 2, 1]])
@each("probabilities", [False, True])
def test_svm_classifiers_as_onnxruntime(transform: str, counts: list[int], probabilities: bool) -> None:
    rng = np.random.default_rng(len(counts))
    total, pairs = sum(counts), len(counts) * (len(counts) - 1) // 2
    options: dict[str, Any] = {
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.1, 3.0],
        "vectors_per_class": counts,
        "support_vectors": vectors(total),
        "coefficients": rng.normal(size=(len(counts) - 1) * total).astype(F).tolist(),
        "rho": rng.normal(size=pairs).astype(F).tolist(),
        "classlabels_ints": list(range(10, 10 + len(counts))),
        "post_transform": transform,
    }
    if probabilities:
        options |= {"prob_a": [-1.0] * pairs, "prob_b": [0.2] * pairs}
    x = rng.normal(size=(5, 3)).astype(F)
    want = by_onnxruntime("SVMClassifier", [x], version=1, domain=ML, outputs=2, out_types=[7, 1], **options)
    labels_and_scores_are(want, "SVMClassifier", x, **options)


def test_a_linear_svm_has_one_rho_for_all() -> None:
    options = {"coefficients": np.eye(3).ravel().tolist(), "rho": [0.5, 7.0, 7.0], "classlabels_strings": ["a", "b", "c"]}
    graph = node_graph("SVMClassifier", [0], version=1, domain=ML, outputs=2, **options)
    label, scores = run_nodes(graph, [X], "known")
    assert label.tolist() == ["c", "a", "a"]
    np.testing.assert_allclose(scores, X + 0.5)
