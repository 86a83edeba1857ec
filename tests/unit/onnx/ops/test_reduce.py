"""Reductions, arg max, running sums and top k, in each version."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import QUICK_WAYS, node_graph, run_node
from tests.unit.onnx.ops.together import each
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpret import Run, run_graph

F = np.float32
X = np.array([[[1, -2], [3, 4]], [[0.5, 2], [-1, 3]]], F)
AXES_INPUT = {"ReduceSum": 13}
NUMPY: dict[str, Any] = {
    "ReduceL1": lambda x, **k: np.sum(abs(x), **k),
    "ReduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "ReduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.sum(np.exp(x), **k)),
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **k: np.sum(x * x, **k),
}


@each("name", NUMPY)
@each("version", [1, 11, 12, 13, 18, 20, 28])
def test_axes_are_an_attribute_and_then_an_input(name: str, version: int) -> None:
    x = abs(X) if name == "ReduceLogSum" else X
    for axes, keep in (([1], 1), ([0, -1], 0), ([], 1)):
        want = NUMPY[name](x, axis=tuple(axes) if axes else None, keepdims=bool(keep))
        if version < AXES_INPUT.get(name, 18):
            inputs, options = [x], {"axes": axes} if axes else {}
        else:
            inputs, options = [x, np.array(axes, np.int64)], {}
        (got,) = run_node(name, inputs, "known", version=version, keepdims=keep, **options)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6)


@each("name", NUMPY)
def test_each_way(name: str) -> None:
    x = abs(X) if name == "ReduceLogSum" else X
    agrees([NUMPY[name](x, axis=1, keepdims=True)], name, [x, np.array([1])], version=18)


def test_empty_axes_may_reduce_nothing() -> None:
    for name, want in (("ReduceSum", X), ("ReduceL2", abs(X)), ("ReduceLogSumExp", X), ("ReduceSumSquare", X * X), ("ReduceMax", X)):
        (got,) = run_node(name, [X], "jit", version=18, noop_with_empty_axes=1, keepdims=0)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert run_node(name, [X], "jit", version=18, keepdims=0)[0].shape == ()


EMPTY = {
    "ReduceL1": 0,
    "ReduceL2": 0,
    "ReduceLogSum": -np.inf,
    "ReduceLogSumExp": -np.inf,
    "ReduceMax": -np.inf,
    "ReduceMean": np.nan,
    "ReduceMin": np.inf,
    "ReduceProd": 1,
    "ReduceSum": 0,
    "ReduceSumSquare": 0,
}


@each("name", EMPTY)
def test_reductions_of_nothing(name: str) -> None:
    agrees([np.array([EMPTY[name]] * 2, F)], name, [np.zeros((2, 0), F), np.array([1])], version=18, keepdims=0)


@each("way", QUICK_WAYS)
def test_integers_keep_their_type(way: str) -> None:
    x = np.array([[7, -2, -6], [1, 1, 1]], np.int32)
    for name, want in (
        ("ReduceMean", [0, 1]),
        ("ReduceSum", [-1, 3]),
        ("ReduceL2", [9, 1]),
        ("ReduceProd", [84, 1]),
        ("ReduceMin", [-6, 1]),
    ):
        (got,) = run_node(name, [x, np.array([1])], way, version=18, keepdims=0)
        assert np.asarray(got).tolist() == want  # -1 / 3 is 0, the root of 89 is 9
        assert got.dtype == np.int32
    none = np.zeros((1, 0), np.int8)
    assert int(run_node("ReduceMax", [none, np.array([1])], way, version=18)[0].item()) == -128
    assert int(run_node("ReduceMin", [none, np.array([1])], way, version=18)[0].item()) == 127
    truth = np.array([[True, False]])
    assert not run_node("ReduceMin", [truth, np.array([1])], way, version=20)[0].item()
    assert run_node("ReduceMax", [truth, np.array([1])], way, version=20)[0].item()


def test_half_floats_are_added_in_single_precision() -> None:
    for way in QUICK_WAYS:
        (got,) = run_node("ReduceSum", [np.full(4096, 0.1, np.float16)], way, version=13)
        assert abs(float(got.item()) - 409.5) < 1
        assert got.dtype == np.float16


def test_large_exponents_and_roots_of_zero() -> None:
    (got,) = run_node("ReduceLogSumExp", [np.array([1000.0, 1000.0], F)], "jit", version=18)
    np.testing.assert_allclose(got, [1000 + np.log(2)], rtol=1e-6)
    graph = node_graph("ReduceL2", [0], version=13)
    gradient = jax.grad(lambda x: run_graph(graph, [x], Run())[0].sum())
    assert gradient(jnp.zeros(2)).tolist() == [0, 0]
    np.testing.assert_allclose(gradient(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


def test_a_wrong_axis_is_refused() -> None:
    with pytest.raises(OnnxError, match="axis 3 of an array that has 3 axes"):
        run_node("ReduceSum", [X], version=11, axes=[3])
    with pytest.raises(OnnxError, match="the axes, which is known only when the program runs"):
        run_node("ReduceSum", [X, np.array([1])], "jit", version=13, static=[])


@each("way", QUICK_WAYS)
@each("version", [1, 11, 12, 13])
def test_arg_max_and_arg_min(way: str, version: int) -> None:
    x = np.array([[1, 3, 3], [2, 0, 2]], F)
    assert np.asarray(run_node("ArgMax", [x], way, version=version, axis=1)[0]).tolist() == [[1], [0]]
    assert np.asarray(run_node("ArgMin", [x], way, version=version, keepdims=0)[0]).tolist() == [0, 1, 1]
    if version >= 12:
        assert np.asarray(run_node("ArgMax", [x], way, version=version, axis=-1, keepdims=0, select_last_index=1)[0]).tolist() == [2, 2]
        assert np.asarray(run_node("ArgMin", [x], way, version=version, axis=1, keepdims=0, select_last_index=1)[0]).tolist() == [0, 1]
    if way != "jit":
        assert run_node("ArgMax", [x], way, version=version)[0].dtype == np.int64
    with pytest.raises(OnnxError, match="no index along axis 0, which has no elements"):
        run_node("ArgMax", [np.zeros((0, 2), F)], way, version=version)


@each("way", QUICK_WAYS)
@each("exclusive", [0, 1])
@each("reverse", [0, 1])
def test_running_sums_and_products(way: str, exclusive: int, reverse: int) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    for name, function, first, version in (("CumSum", np.cumsum, 0, 11), ("CumProd", np.cumprod, 1, 26)):
        ordered = x[:, ::-1] if reverse else x
        if exclusive:
            ordered = np.concatenate([np.full((2, 1), first, np.int32), ordered[:, :-1]], 1)
        want = function(ordered, axis=1)
        (got,) = run_node(name, [x, np.array(-1)], way, version=version, exclusive=exclusive, reverse=reverse)
        np.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)
        assert got.dtype == np.int32
        assert run_node(name, [x[:, :0], np.array(1)], way, version=version, exclusive=exclusive, reverse=reverse)[0].shape == (2, 0)


@each("way", QUICK_WAYS)
def test_top_k_in_every_version(way: str) -> None:
    x = np.array([[3, 1, 3, 2], [0, -1, 5, 5]], F)
    best = [[3, 3], [5, 5]], [[0, 2], [2, 3]]
    for version, inputs, options in (
        (1, [x], {"k": 2}),
        (10, [x, np.array([2])], {}),
        (11, [x, np.array([2])], {"sorted": 1}),
        (24, [x, np.array([2])], {}),
    ):
        values, indices = run_node("TopK", inputs, way, version=version, outputs=2, **options)
        assert (np.asarray(values).tolist(), np.asarray(indices).tolist()) == best
    values, indices = run_node("TopK", [x, np.array([1])], way, version=11, outputs=2, largest=0, axis=0)
    assert (np.asarray(values).tolist(), np.asarray(indices).tolist()) == ([[0, -1, 3, 2]], [[1, 1, 0, 0]])
    assert indices.dtype == (np.int32 if way == "jit" else np.int64)


@each("dtype", [np.int8, np.uint8, np.int32, np.float16])
def test_the_smallest_of_all_types(dtype: Any) -> None:
    limits = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else np.finfo(dtype)
    x = np.array([limits.max, 3, limits.min, 3], dtype)
    for way in QUICK_WAYS:
        values, indices = run_node("TopK", [x, np.array([4])], way, version=11, outputs=2, largest=0)
        assert np.asarray(values).tolist() == [limits.min, 3, 3, limits.max]
        assert np.asarray(indices).tolist() == [2, 1, 3, 0]


def test_top_k_has_bounds_and_a_gradient() -> None:
    with pytest.raises(OnnxError, match="k is 4, and axis 0 has 3 elements"):
        run_node("TopK", [np.zeros(3, F), np.array([4])], version=11, outputs=2)
    graph = node_graph("TopK", [0], version=1, outputs=2, k=1)
    assert jax.grad(lambda x: run_graph(graph, [x], Run())[0].sum())(jnp.array([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]
