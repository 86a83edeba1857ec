"""Samples and regions of images, against ONNX Runtime and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.one_node import run_node
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = values(2, 3, 5, 4)
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


@each("align_corners", [0, 1])
@each("sizes", [(2, 1, 3, 4), (2, 1, 2, 3, 4)])
def test_grids_by_hand(sizes: tuple[int, ...], align_corners: int) -> None:
    axes = len(sizes) - 2
    theta = values(2, axes, axes + 1)
    steps = [np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) for n in sizes[2:]]
    points = np.stack([*np.meshgrid(*steps, indexing="ij")[::-1], np.ones(sizes[2:])], -1).astype(F)
    expected = np.einsum("...p,nap->n...a", points, theta)
    agrees([expected], "AffineGrid", [theta, np.array(sizes)], version=20, align_corners=align_corners)


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
        run_node("RoiAlign", [X, ROIS, BATCH], "jit", version=16)


def test_a_region_that_is_much_too_large_is_refused() -> None:
    with pytest.raises(OnnxError, match="a region of interest wants 1000000 samples along a part, and may have 20"):
        run_node("RoiAlign", [X, np.array([[0, 0, 1, 1e6]], F), np.array([0])], version=16)


@each("shape", [(1, 1), (2, 3)])
def test_maxima_of_regions_are_onnxruntimes(shape: tuple[int, int]) -> None:
    rois = np.concatenate([BATCH[:, None], ROIS], 1).astype(F)
    agrees_with_onnxruntime("MaxRoiPool", [X, rois], version=7, pooled_shape=list(shape), spatial_scale=0.5)


@each("version", [1, 22])
def test_maxima_of_regions_by_hand(version: int) -> None:
    x = np.arange(16, dtype=F).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0.5, 0, 2, 1], [0, 9, 9, 9, 9]], F)  # columns 1 and 2 of rows 0 and 1; nothing
    agrees([np.array([[[[2], [6]]], [[[0], [0]]]], F)], "MaxRoiPool", [x, rois], version=version, pooled_shape=[2, 1])
