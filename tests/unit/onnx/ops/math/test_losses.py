"""Losses by hand."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import check_node, run_node
from tilestep.onnx.errors import OnnxError

X = values(3, 4, 2)
TARGET = np.array([[0, 3], [2, 2], [1, 0]])


@each("target", [-1, 4])
def test_a_target_that_is_no_class_gives_no_number(target: int) -> None:
    def check(_: str, outputs: list[Any]) -> None:
        assert np.isnan(outputs[0]).tolist() == [False, True, False]

    check_node("NegativeLogLikelihoodLoss", [X[:, :, 0], np.array([0, target, 1])], check, ("jit",), version=13, reduction="none")


def test_two_dimensions_and_32_bits() -> None:
    target = np.array([1, 0, 3], np.int32)
    agrees([-X[[0, 1, 2], target, 0]], "NegativeLogLikelihoodLoss", [X[:, :, 0], target], version=13, reduction="none")


def test_unknown_reductions_are_named() -> None:
    with pytest.raises(OnnxError, match="reduction is 'max', and may be none, sum or mean"):
        run_node("NegativeLogLikelihoodLoss", [X, TARGET], version=13, reduction="max")
