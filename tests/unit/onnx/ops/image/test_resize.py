"""Resize and Upsample: against ONNX Runtime, and by hand where it differs from ONNX's own tests."""

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


IMAGES = values(2, 3, 5, 4)
ROIS = np.array([[0.5, 1, 6.5, 7], [2, 2, 3, 9], [-1, 0, 4, 4], [3, 3, 3, 3], [30, 30, 40, 40]], F)
BATCH = np.array([0, 1, 1, 0, 1])


@each("padding_mode", ["zeros", "border", "reflection"])
def test_samples_of_a_volume_are_onnxruntimes(padding_mode: str) -> None:
    x, grid = values(1, 2, 3, 4, 5), 1.5 * values(1, 2, 3, 2, 3, seed=1)
    agrees_with_onnxruntime("GridSample", [x, grid], version=20, mode="linear", padding_mode=padding_mode, rtol=1e-3, ways=("jit",))


def test_samples_of_integers_and_of_no_numbers() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.int32)
    grid = np.array([[[[0.6, -0.6], [np.nan, 0]]]], F)
    y = run_node("GridSample", [x, grid], "jit", version=20, mode="nearest")[0]
    assert np.asarray(y)[0, 0, 0].tolist() == [2, 0]


def test_the_only_point_of_an_axis_is_in_its_middle() -> None:
    theta = np.array([[[1, 0, 0], [0, 1, 0]]], F)
    agrees([np.array([[[[-1, 0], [1, 0]]]], F)], "AffineGrid", [theta, np.array([1, 1, 1, 2])], version=20, align_corners=1)


@each("version", [10, 16, 22])
def test_regions_by_hand(version: int) -> None:
    x = np.arange(16, dtype=F).reshape(1, 1, 4, 4)
    roi = np.array([[0, 0, 2, 2]], F)
    # One sample in the middle: at (1, 1), or half an element before it.
    expected = 5 if version == 10 else 2.5
    agrees([np.array([[[[expected]]]], F)], "RoiAlign", [x, roi, np.array([0])], version=version, sampling_ratio=1, ways=("jit",))


def test_regions_that_are_sampled_by_their_size_must_be_known() -> None:
    with pytest.raises(
        DynamicShapeError, match=r"needs the regions of interest, because sampling_ratio is 0, .* Two ways out: .*static=\[\.\.\.\]\)(\n|$)"
    ):
        run_node("RoiAlign", [IMAGES, ROIS, BATCH], "jit", version=16)


def test_a_region_that_is_much_too_large_is_refused() -> None:
    with pytest.raises(OnnxError, match="a region of interest wants 1000000 samples along a part, and may have 20"):
        run_node("RoiAlign", [IMAGES, np.array([[0, 0, 1, 1e6]], F), np.array([0])], version=16)


@each("shape", [(1, 1), (2, 3)])
def test_maxima_of_regions_are_onnxruntimes(shape: tuple[int, int]) -> None:
    rois = np.concatenate([BATCH[:, None], ROIS], 1).astype(F)
    agrees_with_onnxruntime("MaxRoiPool", [IMAGES, rois], version=7, pooled_shape=list(shape), spatial_scale=0.5)
