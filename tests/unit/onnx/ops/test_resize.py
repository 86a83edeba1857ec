"""Resize and Upsample: against ONNX Runtime, and by hand where it differs from ONNX's own tests."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, slope_agrees, values
from tests.unit.onnx.ops.one_node import run_node
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = values(1, 2, 4, 5)
ROW = np.array([[1, 2, 3, 4]], F)
NONE = np.zeros(0, F)
LARGER, SMALLER = np.array([1, 1, 2, 3], F), np.array([1, 1, 0.5, 0.6], F)


@each("version", [1, 7, 9])
def test_upsample_by_hand(version: int) -> None:
    x = np.array([[[[1, 2], [3, 4]]]], F)
    nearest = np.array([[[[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]]], F)
    linear = np.array([[[[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]]]], F)
    for expected, mode in ((nearest, "nearest"), (linear, "bilinear" if version == 1 else "linear")):
        if version == 1:
            agrees([expected], "Upsample", [x], version=1, height_scale=2.0, width_scale=2.0, mode=mode)
        elif version == 7:
            agrees([expected], "Upsample", [x], version=7, scales=[1.0, 1.0, 2.0, 2.0], mode=mode)
        else:
            agrees([expected], "Upsample", [x, np.array([1, 1, 2, 2], F)], version=9, mode=mode)


@each("mode", ["nearest", "linear"])
@each("scales", [LARGER, SMALLER])
def test_resize_10_is_onnxruntimes(mode: str, scales: Any) -> None:
    agrees_with_onnxruntime("Resize", [X, scales], version=10, mode=mode)


def test_resize_10_by_hand() -> None:
    agrees([np.array([[1, 3]], F)], "Resize", [ROW, np.array([1, 0.6], F)], version=10)  # 1 / 0.6 = 1.67 goes up if it shrinks
    agrees([np.array([[1, 2 + 2 / 3]], F)], "Resize", [ROW, np.array([1, 0.6], F)], version=10, mode="linear")


@each(
    "coordinates, mode",
    [
        *itertools.product(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"], ["nearest", "linear", "cubic"]),
        ("tf_half_pixel_for_nn", "nearest"),
    ],
)
def test_coordinates_are_onnxruntimes(coordinates: str, mode: str) -> None:
    sizes = np.array([1, 2, 9, 3])
    agrees_with_onnxruntime("Resize", [X, NONE, NONE, sizes], version=11, coordinate_transformation_mode=coordinates, mode=mode, rtol=1e-4)


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


@each("attributes", [{"cubic_coeff_a": -0.5}, {"exclude_outside": 1}, {"cubic_coeff_a": -0.5, "exclude_outside": 1}])
@each("scales", [LARGER, SMALLER])
def test_cubic_options_are_onnxruntimes(attributes: dict[str, Any], scales: Any) -> None:
    agrees_with_onnxruntime("Resize", [X, NONE, scales], version=11, mode="cubic", rtol=1e-4, **attributes)


@each("mode", ["nearest", "linear"])
def test_crops_are_onnxruntimes(mode: str) -> None:
    roi = np.array([0, 0, 0.4, -0.1, 1, 1, 1.2, 0.8], F)
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    agrees_with_onnxruntime("Resize", [X, roi, NONE, np.array([1, 2, 3, 6])], version=11, mode=mode, rtol=1e-4, **options)


@each("version", [11, 13, 18, 19])
def test_a_crop_by_hand(version: int) -> None:
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -1.0, "mode": "linear"}
    scales, sizes = (NONE, np.array([1, 3])) if version == 11 else (None, np.array([1, 3]))
    roi = np.array([0, 0.5, 1, 1.5], F)  # from 1.5 to 4.5
    agrees([np.array([[2.5, 4, -1]], F)], "Resize", [ROW, roi, scales, sizes], version=version, **options)


@each("mode", ["linear", "cubic"])
@each("scales", [SMALLER, np.array([1, 1, 0.3, 2], F)])
def test_stretched_filters_are_onnxruntimes(mode: str, scales: Any) -> None:
    x = values(1, 2, 10, 10)
    agrees_with_onnxruntime("Resize", [x, None, scales], version=18, mode=mode, antialias=1, exclude_outside=1, rtol=1e-3)


@each("policy, expected", [("stretch", (1, 2, 7, 8)), ("not_larger", (1, 2, 6, 8)), ("not_smaller", (1, 2, 7, 9))])
def test_policies_keep_the_aspect_ratio(policy: str, expected: tuple[int, ...]) -> None:
    inputs = [X, None, None, np.array([7, 8])]
    for axes in ([2, 3], [-2, -1]):
        y = run_node("Resize", inputs, version=18, axes=axes, keep_aspect_ratio_policy=policy)[0]
        assert y.shape == expected


def test_axes_are_in_the_order_of_their_scales() -> None:
    y = run_node("Resize", [X, None, np.array([3, 2], F)], version=18, axes=[3, 2])[0]
    assert y.shape == (1, 2, 8, 15)


@each("size, scale, expected", [(10, 0.7, 7), (3, 1 / 3, 1), (5, 0.6, 3), (7, 0.5, 3)])
def test_sizes_are_float32_products(size: int, scale: float, expected: int) -> None:
    y = run_node("Resize", [np.zeros(size, F), None, np.array([scale], F)], version=13)[0]
    assert y.shape == (expected,)


@each("dtype", [np.uint8, np.int64, np.bool_, np.float16])
def test_the_nearest_keeps_any_type(dtype: Any) -> None:
    x = np.array([[1, 0]], dtype)
    agrees([np.repeat(x, 3, 1)], "Resize", [x, None, np.array([1, 3], F)], version=13)


def test_text_may_be_repeated() -> None:
    y = run_node("Upsample", [np.array(["a", "b"], object), np.array([2], F)], version=9)[0]
    assert y.tolist() == ["a", "a", "b", "b"]


def test_integers_are_rounded_and_stay_in_their_range() -> None:
    x = np.array([[0, 255, 255, 0]], np.uint8)
    y = run_node("Resize", [x, None, np.array([1, 2], F)], "jit", version=13, mode="cubic")[0]
    assert np.asarray(y)[0, 3:5].tolist() == [255, 255]  # above it without a bound
    linear = run_node("Resize", [np.array([[0, 1]], np.uint8), None, np.array([1, 2], F)], version=13, mode="linear")[0]
    assert np.asarray(linear).tolist() == [[0, 0, 1, 1]]


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


def test_a_large_result_is_made_by_the_program() -> None:
    y = run_node("Resize", [np.ones((1, 1), F), None, np.array([5000, 5000], F)], "known", version=13)[0]
    assert not isinstance(y, np.ndarray)
    assert y.shape == (5000, 5000)


@pytest.mark.slow  # tests/unit/onnx/ops/gradients has a case of each operator
@each("mode", ["nearest", "linear", "cubic"])
def test_gradients(mode: str) -> None:
    slope_agrees("Resize", [X, None, SMALLER], version=13, mode=mode)
    slope_agrees("Resize", [X, None, LARGER], version=18, mode=mode)
