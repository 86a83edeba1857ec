"""Resize and Upsample: against ONNX Runtime, and by hand where it differs from ONNX's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.one_node import run_node
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = values(1, 2, 4, 5)
ROW = np.array([[1, 2, 3, 4]], F)
NONE = np.zeros(0, F)
LARGER, SMALLER = np.array([1, 1, 2, 3], F), np.array([1, 1, 0.5, 0.6], F)


@each("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@each("scales", [LARGER, SMALLER])
def test_the_nearest_is_onnxruntimes(rounding: str, scales: Any) -> None:
    options = {"nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
    agrees_with_onnxruntime("Resize", [X, NONE, scales], version=11, **options)


@each(
    "rounding, halves, thirds",  # points are at 0, 0.5, 1 ... and at 0, 0.67, 1.33 ...
    [
        ("round_prefer_floor", [1, 1, 2, 2, 3, 3, 4, 4], [1, 2, 2, 3, 4, 4]),
        ("round_prefer_ceil", [1, 2, 2, 3, 3, 4, 4, 4], [1, 2, 2, 3, 4, 4]),
        ("floor", [1, 1, 2, 2, 3, 3, 4, 4], [1, 1, 2, 3, 3, 4]),
        ("ceil", [1, 2, 2, 3, 3, 4, 4, 4], [1, 2, 3, 3, 4, 4]),
    ],
)
def test_the_nearest_by_hand(rounding: str, halves: list[int], thirds: list[int]) -> None:
    options = {"nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
    for scale, expected in ((2, halves), (1.5, thirds)):
        agrees([np.array([expected], F)], "Resize", [ROW, None, np.array([1, scale], F)], version=13, **options)


@each("version", [11, 13, 18, 19])
def test_a_crop_by_hand(version: int) -> None:
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -1.0, "mode": "linear"}
    scales, sizes = (NONE, np.array([1, 3])) if version == 11 else (None, np.array([1, 3]))
    roi = np.array([0, 0.5, 1, 1.5], F)  # from 1.5 to 4.5
    agrees([np.array([[2.5, 4, -1]], F)], "Resize", [ROW, roi, scales, sizes], version=version, **options)


def test_text_may_be_repeated() -> None:
    y = run_node("Upsample", [np.array(["a", "b"], object), np.array([2], F)], version=9)[0]
    assert y.tolist() == ["a", "a", "b", "b"]


@each(
    "inputs, attributes, message",
    [
        ([ROW, None, np.array([1, -1], F)], {}, "each must be above 0"),
        ([ROW, None, np.array([1], F)], {}, "there are 1 scales or sizes, and 2 axes"),
        ([ROW], {}, "give either scales or sizes"),
        ([ROW, None, np.array([1, 2], F)], {"mode": "area"}, "mode is 'area'"),
        ([ROW, None, np.array([1, 2], F)], {"nearest_mode": "up"}, "nearest_mode is 'up'"),
        ([ROW, None, np.array([1, 2], F)], {"coordinate_transformation_mode": "mid"}, "coordinate_transformation_mode is 'mid'"),
        ([ROW, None, None, np.array([1, 2])], {"keep_aspect_ratio_policy": "some"}, "keep_aspect_ratio_policy is 'some'"),
        ([ROW, None, np.array([1, 2], F)], {"coordinate_transformation_mode": "tf_crop_and_resize"}, "wants a roi of 4 values"),
    ],
)
def test_what_cant_be_says_why(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node("Resize", inputs, version=18, **attributes)


def test_sizes_must_be_known() -> None:
    with pytest.raises(DynamicShapeError, match="needs the sizes, which is known only when the program runs"):
        run_node("Resize", [ROW, None, None, np.array([1, 8])], "jit", version=13, static=())
