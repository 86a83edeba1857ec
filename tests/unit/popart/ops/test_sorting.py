"""Orders, medians and buckets, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.onnx.ops.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.popart.exceptions import popart_exception

F = np.float32
X = np.random.default_rng(0).permutation(60).astype(F).reshape(3, 4, 5)


@each("axis", [0, -1])
@each("descending", [0, 1])
def test_sorts(axis: int, descending: int) -> None:
    order = np.argsort(-X if descending else X, axis, kind="stable")
    holds([np.take_along_axis(X, order, axis), order.astype(np.int32)], "Sort", [X], axis=axis, descending=descending, stable=1)


def test_a_gradient_goes_back_to_where_elements_were() -> None:
    np.testing.assert_array_equal(gradient("Sort", [np.array([3, 1, 2], F)], count=2, cotangent=np.array([1, 2, 3], F)), [3, 1, 2])


def test_equal_elements_keep_their_order() -> None:
    x = np.array([2, 1, 2, 1], np.int32)
    for descending, order in ((0, [1, 3, 0, 2]), (1, [0, 2, 1, 3])):
        np.testing.assert_array_equal(outputs("Sort", [x], count=2, descending=descending)[1], order)


@each("axes", [None, [0], [1, 2], [-1]])
@each("keepdims", [0, 1])
def test_medians(axes: Any, keepdims: int) -> None:
    x = X[:, :3, :]  # an odd number of elements along each choice of axes
    median, index = outputs("ReduceMedian", [x], count=2, keepdims=keepdims, **({} if axes is None else {"axes": axes}))
    np.testing.assert_array_equal(median, np.median(x, None if axes is None else tuple(axes), keepdims=bool(keepdims)))
    if axes is None:
        assert x.ravel()[int(index.ravel()[0])] == np.median(x)


def test_of_an_even_number_the_lower_one_is_the_median_and_gets_the_gradient() -> None:
    x = np.array([4, 1, 3, 2], F)
    holds([F(2), np.int32(3)], "ReduceMedian", [x], keepdims=0)
    np.testing.assert_array_equal(gradient("ReduceMedian", [x], count=2, keepdims=0), [0, 0, 0, 1])


def test_an_axis_that_there_is_not() -> None:
    with pytest.raises(popart_exception, match="Axis 3 is out of acceptable range"):
        outputs("ReduceMedian", [X], axes=[3])


@each("right", [0, 1])
def test_buckets(right: int) -> None:
    boundaries = np.array([10, 20, 30], F)
    expected = np.searchsorted(boundaries, X, "right" if right else "left").astype(np.int32)
    holds([expected], "Bucketize", [X, boundaries], right=right)


@each(
    "boundaries, right, message",
    [(np.zeros((1, 2), F), 0, "not a 1-D tensor"), (np.zeros(2, np.int32), 0, "different data types"), (np.zeros(2, F), 2, "right = 2")],
)
def test_buckets_that_do_not_fit(boundaries: Any, right: int, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("Bucketize", [X, boundaries], right=right)
