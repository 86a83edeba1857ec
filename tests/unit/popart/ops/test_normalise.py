"""Norms, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.popart.exceptions import popart_exception

F = np.float32
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 4, 3, 2)).astype(F)
SCALE, BIAS = RANDOM.standard_normal(4).astype(F), RANDOM.standard_normal(4).astype(F)
MEAN, VARIANCE = RANDOM.standard_normal(4).astype(F), RANDOM.uniform(0.5, 2, 4).astype(F)
BATCH = [X, SCALE, BIAS, MEAN, VARIANCE]


def along(values: Any) -> Any:
    return values.reshape(1, -1, 1, 1)


def test_groups_that_do_not_divide_the_channels() -> None:
    with pytest.raises(popart_exception, match="num_groups is 3"):
        outputs("GroupNormalization", [X, SCALE, BIAS], num_groups=3)


def test_a_batch_norm_with_one_output_takes_the_running_statistics() -> None:
    y = (X - along(MEAN)) / np.sqrt(along(VARIANCE) + 1e-5) * along(SCALE) + along(BIAS)
    holds([y.astype(F)], "BatchNormalization", BATCH, atol=1e-5)
    with pytest.raises(popart_exception, match="it has to be detached first"):
        gradient("BatchNormalization", BATCH)


@each(
    "position, value, message",
    [
        (0, X[:, :, 0, 0], "batch norm requires X to have a rank >= 3"),
        (1, SCALE[:2], r"expected shape of batch norm input tensor scale \(\[2\]\) to be \[4\]"),
        (4, VARIANCE[:2], r"tensor var \(\[2\]\) to be \[4\]"),
    ],
)
def test_shapes_that_a_batch_norm_refuses(position: int, value: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("BatchNormalization", [value if i == position else x for i, x in enumerate(BATCH)])


@each("dtype", [np.float32, np.float16, np.uint8])
def test_images_get_a_fourth_channel(dtype: Any) -> None:
    made = np.float32 if dtype == np.float32 else np.float16
    image = RANDOM.integers(0, 255, (2, 2, 3)).astype(dtype)
    offsets, scales = np.array([1, 2, 3], made), np.array([4, 5, 6], made)
    expected = np.pad((image.astype(made) * made(1 / 255) - offsets) * scales, ((0, 0), (0, 0), (0, 1)))
    holds([expected], "NormalizeImage", [image, offsets, scales], scale=1 / 255, rtol=1e-2 if made == np.float16 else 1e-5)


def test_images_without_three_channels_and_without_a_scale() -> None:
    ones = np.ones(3, F)
    with pytest.raises(popart_exception, match="inner dimension to be 3"):
        outputs("NormalizeImage", [np.ones((2, 4), F), ones, ones])
    with pytest.raises(popart_exception, match="scale should be greater than 0"):
        outputs("NormalizeImage", [np.ones((2, 3), F), ones, ones], scale=0.0)
