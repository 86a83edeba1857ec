from __future__ import annotations

from typing import Any

import pytest

from tilestep import popart
from tilestep.popart import Builder, TensorInfo
from tilestep.popart.builder.windows import spatial_shape


def test_rounding_up_and_padding_of_the_result() -> None:
    given: dict[str, Any] = {"pads": [0, 0], "strides": [2], "dilations": [1], "in_dilations": [1]}
    assert spatial_shape([6], [3], **given, out_pads=[0, 0]) == [2]
    assert spatial_shape([6], [3], **given, out_pads=[0, 0], ceil_mode=True) == [3]
    assert spatial_shape([6], [3], **given, out_pads=[1, 2]) == [5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strides": [1]}, "Length of strides vector 1 != number of spatial dimensions 2"),
        ({"pads": [0, 0]}, r"Padding vector \(length 2\) does not have 2 values for each spatial dimension 2"),
        ({"dilations": [1]}, "Length of dilations vector 1 != number of spatial dimensions 2"),
        ({"kernel_shape": [5, 5]}, r"^kernel_shape, \[5 5\], does not match inferred shape from weight input 'w', \[3 3\]$"),
        ({"dilations": [8, 8]}, r"^Window parameter values combine to give invalid spatial output shape: \[-8 -8\]$"),
    ],
)
def test_convolutions_are_checked(given: dict[str, list[int]], message: str) -> None:
    builder = Builder()
    x = builder.addInputTensor(TensorInfo("FLOAT", [1, 2, 8, 8]), "x")
    w = builder.addInputTensor(TensorInfo("FLOAT", [4, 2, 3, 3]), "w")
    with pytest.raises(popart.popart_exception, match=message):
        builder.aiOnnx.conv([x, w], **given)
    assert builder.getTensorShape(builder.aiOnnx.conv([x, w], pads=[1] * 4)) == [1, 4, 8, 8]


def test_pools_are_checked() -> None:
    builder = Builder()
    x, flat = (builder.addInputTensor(TensorInfo("FLOAT", shape)) for shape in ([1, 2, 8, 8], [1, 2]))
    with pytest.raises(popart.popart_exception, match="Length of strides vector 3"):
        builder.aiOnnx.averagepool([x], [2, 2], strides=[1, 1, 1])
    with pytest.raises(popart.popart_exception, match="Input tensor has no spatial dimensions"):
        builder.aiOnnx.maxpool([flat], 1, [2, 2])
    assert builder.getTensorShape(builder.aiOnnx.maxpool([x], 1, [2, 2], strides=[2, 2])[0]) == [1, 2, 4, 4]


def test_pads_are_checked() -> None:
    builder = Builder()
    x = builder.addInputTensor(TensorInfo("FLOAT", [10]))
    assert builder.getTensorShape(builder.aiOnnx.pad([x], [2, 3], "constant", 0.0)) == [15]
    with pytest.raises(popart.popart_exception, match=r"^Padding vector \(length 4\) doesn't contain 2 entries per input dimension 1$"):
        builder.aiOnnx.pad([x], [2, 3, 4, 5])
