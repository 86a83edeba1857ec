"""Orders, medians and buckets, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.popart.exceptions import popart_exception

F = np.float32
X = np.random.default_rng(0).permutation(60).astype(F).reshape(3, 4, 5)


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


def test_an_axis_that_there_is_not() -> None:
    with pytest.raises(popart_exception, match="Axis 3 is out of acceptable range"):
        outputs("ReduceMedian", [X], axes=[3])


@each(
    "boundaries, right, message",
    [(np.zeros((1, 2), F), 0, "not a 1-D tensor"), (np.zeros(2, np.int32), 0, "different data types"), (np.zeros(2, F), 2, "right = 2")],
)
def test_buckets_that_do_not_fit(boundaries: Any, right: int, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("Bucketize", [X, boundaries], right=right)
