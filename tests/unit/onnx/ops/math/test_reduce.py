"""Reductions of nothing, wrong axes, running sums and products."""

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tilestep.onnx.errors import OnnxError

F = np.float32
X = np.array([[[1, -2], [3, 4]], [[0.5, 2], [-1, 3]]], F)


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
def test_halves_are_added_as_floats(way: str) -> None:
    ones = np.ones((3000, 2), np.float16)  # to 2,048 a half can't add one
    (got,) = run_node("ReduceSum", [ones], way, version=11, axes=[0], keepdims=0)
    assert (got.tolist(), got.dtype) == ([3000, 3000], np.float16)


def test_a_wrong_axis_is_refused() -> None:
    with pytest.raises(OnnxError, match="axis 3 of an array that has 3 axes"):
        run_node("ReduceSum", [X], version=11, axes=[3])
    with pytest.raises(OnnxError, match="the axes, which is known only when the program runs"):
        run_node("ReduceSum", [X, np.array([1])], "jit", version=13, static=[])


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
