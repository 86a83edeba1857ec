"""Softmax and its kin: before version 13 axes from one on are one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, slope_agrees, values
from tests.unit.onnx.ops.one_node import run_node
from tilestep.onnx.errors import OnnxError

NAMES = ("Softmax", "LogSoftmax", "Hardmax")
X = values(2, 3, 4)


@each("op_type", NAMES)
@each("version", [11, 13])
def test_axes_count_from_the_end(op_type: str, version: int) -> None:
    agrees_with_onnxruntime(op_type, [X], version=version, axis=-2)


@each("version", [1, 11])
def test_all_axes_from_one_on_are_one(version: int) -> None:
    exponentials = np.exp(X)
    agrees([exponentials / exponentials.sum((1, 2), keepdims=True)], "Softmax", [X], version=version)
    agrees([X - np.log(exponentials.sum((1, 2), keepdims=True))], "LogSoftmax", [X], version=version)
    one = np.array([[[0, 1], [1, 0]]], np.float32)
    agrees([np.array([[[0, 1], [0, 0]]], np.float32)], "Hardmax", [one], version=version)


@each("op_type", NAMES)
@each("version", [1, 13])
def test_an_axis_that_isnt_there_is_named(op_type: str, version: int) -> None:
    with pytest.raises(OnnxError, match="axis 3 is out of bounds for array of dimension 3"):
        run_node(op_type, [X], version=version, axis=3)


@pytest.mark.slow  # tests/unit/onnx/ops/gradients has a case of each operator
@each("op_type", NAMES[:2])
@each("version", [1, 13])
def test_gradients(op_type: str, version: int) -> None:
    slope_agrees(op_type, [X], version=version, axis=1)
