"""Operators that pick, order and make elements, medians and buckets, by NumPy."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.popart.enums import DataType
from tilestep.popart.exceptions import popart_exception

F = np.float32
X = np.arange(24, dtype=F).reshape(2, 3, 4)
INDEX = np.array([1], np.uint32)


def test_views() -> None:
    holds([X.reshape(6, 4)], "Reshape", [X], shape=[-1, 4])
    holds([X[:, 1:3]], "Slice", [X], starts=[1], ends=[3], axes=[1])
    holds([X[0:1, 1:-1]], "Slice", [X], starts=[0, 1], ends=[1, -1])
    holds([X[:, ::-1, ::-1]], "Reverse", [X], dimensions=[1, 2])
    holds([X[:, ::2, ::3]], "Subsample", [X], strides=[1, 2, 3])


@each("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    x = np.arange(16, dtype=F).reshape(1, 4, 2, 2)
    y = outputs("DepthToSpace", [x], blocksize=2, mode=mode)[0]
    np.testing.assert_array_equal(y[0, 0], [[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]])


@each(
    "dimensions, message",
    [([-1], "Only positive"), ([3], "invalid dimension '3' for input tensor of rank 3"), ([1, 1], "Dimension 1 appears multiple times")],
)
def test_dimensions_that_cannot_be_reversed(dimensions: list[int], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("Reverse", [X], dimensions=dimensions)


def test_a_stride_of_0_is_refused() -> None:
    with pytest.raises(popart_exception, match=r"Strides invalid\. 0 stride at index 1"):
        outputs("Subsample", [X], strides=[1, 0, 1])


@each("kind, dtype", [(DataType.FLOAT, np.float32), (DataType.FLOAT16, np.float16), (DataType.UINT32, np.uint32)])
def test_init_gives_zeros(kind: DataType, dtype: Any) -> None:
    holds([np.zeros((2, 3), dtype)], "Init", [], shape=[2, 3], data_type=kind.value, tensor_type=0, init_type=1, batch_axis=-1)


def test_gradients_of_dynamic_places() -> None:
    update, inside = np.ones((2, 2, 4), F), np.zeros_like(X)
    inside[:, 1:3] = 1
    np.testing.assert_array_equal(gradient("DynamicSlice", [X, INDEX], axes=[1], sizes=[2]), inside)
    np.testing.assert_array_equal(gradient("DynamicUpdate", [X, INDEX, update], axes=[1], sizes=[2]), 1 - inside)
    np.testing.assert_array_equal(gradient("DynamicUpdate", [X, INDEX, update], position=2, axes=[1], sizes=[2]), update)
    np.testing.assert_array_equal(gradient("DynamicZero", [X, INDEX], axes=[1], sizes=[2]), 1 - inside)
    np.testing.assert_array_equal(gradient("DynamicAdd", [X, INDEX, update], axes=[1], sizes=[2]), np.ones_like(X))


SHUFFLED = np.random.default_rng(0).permutation(60).astype(F).reshape(3, 4, 5)


def test_a_gradient_goes_back_to_where_elements_were() -> None:
    np.testing.assert_array_equal(gradient("Sort", [np.array([3, 1, 2], F)], count=2, cotangent=np.array([1, 2, 3], F)), [3, 1, 2])


def test_equal_elements_keep_their_order() -> None:
    x = np.array([2, 1, 2, 1], np.int32)
    for descending, order in ((0, [1, 3, 0, 2]), (1, [0, 2, 1, 3])):
        np.testing.assert_array_equal(outputs("Sort", [x], count=2, descending=descending)[1], order)


def test_of_an_even_number_the_lower_one_is_the_median_and_gets_the_gradient() -> None:
    x = np.array([4, 1, 3, 2], F)
    holds([F(2), np.int32(3)], "ReduceMedian", [x], keepdims=0)
    np.testing.assert_array_equal(gradient("ReduceMedian", [x], count=2, keepdims=0), [0, 0, 0, 1])


@each(
    "boundaries, right, message",
    [(np.zeros((1, 2), F), 0, "not a 1-D tensor"), (np.zeros(2, np.int32), 0, "different data types"), (np.zeros(2, F), 2, "right = 2")],
)
def test_buckets_that_do_not_fit(boundaries: Any, right: int, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("Bucketize", [SHUFFLED, boundaries], right=right)
