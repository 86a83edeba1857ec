"""Quantised operators: each old version, granularities, rounding at ties, and products that are exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tests.unit.onnx.ops.versions import missing
from tilestep.onnx.errors import OnnxError

F = np.float32
X = np.array([[-10, 0, 1, 3], [5, 7, 300, -300]], F)


def of(*numbers: Any, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.array(numbers, dtype)


def scalar(number: float, dtype: Any = F) -> np.ndarray[Any, Any]:
    return np.array(number, dtype)


def random(*shape: int, dtype: Any = np.int8, seed: int = 0) -> np.ndarray[Any, Any]:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def test_every_version_below_12_has_a_case() -> None:
    names = ("QuantizeLinear", "DequantizeLinear", "QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger")
    assert not missing("quantise", [("DynamicQuantizeLinear", 11), *((name, 10) for name in names)])


@each("name", ["QuantizeLinear", "DequantizeLinear"])
def test_granularities(name: str) -> None:
    x = random(2, 3, 4, dtype=np.int8)
    zero = random(3, dtype=np.int8, seed=1)
    scale = np.array([0.5, 1, 2], F)
    real = x.astype(F)

    def expected(scale: Any, zero: Any) -> np.ndarray[Any, Any]:
        if name == "DequantizeLinear":
            return ((real - zero.astype(F)) * scale).astype(F)
        return np.clip(np.rint(real / scale) + zero, -128, 127).astype(np.int8)

    given = x if name == "DequantizeLinear" else real
    agrees([expected(scale[:, None], zero[:, None])], name, [given, scale, zero], version=13, axis=1)
    agrees([expected(scale[:, None], zero[:, None])], name, [given, scale, zero], version=13, axis=-2, ways=("jit",))
    blocks, zeros = np.arange(1, 13).reshape(2, 3, 2).astype(F), random(2, 3, 2, seed=2)
    wide = [np.repeat(part, 2, axis=2) for part in (blocks, zeros)]
    agrees([expected(*wide)], name, [given, blocks, zeros], version=21, axis=2, block_size=2)
    uneven = [np.repeat(part, 3, axis=2)[..., :4] for part in (blocks, zeros)]
    agrees([expected(*uneven)], name, [given, blocks, zeros], version=21, axis=2, block_size=3, ways=("jit",))
    line = [part.ravel()[:4] for part in (given, np.arange(1, 5).astype(F), zeros)]
    found = (
        (real.ravel()[:4] - line[2]) * line[1] if name == "DequantizeLinear" else np.clip(np.rint(line[0] / line[1]) + line[2], -128, 127)
    )
    agrees([found.astype(F if name == "DequantizeLinear" else np.int8)], name, line, version=21, ways=("jit",))  # its only axis


def test_scales_that_fit_nothing_are_refused() -> None:
    for scale, options, why in (
        (np.ones(3, F), {"axis": 1}, "3 scales for the 4 of axis 1"),
        (np.ones((2, 3), F), {"block_size": 2}, "3 blocks of 2 don't make up the 4"),
        (np.ones((1, 2), F), {"block_size": 2}, "fit no blocks"),
        (np.ones(4, F), {"axis": 2}, "axis 2 is outside of"),
    ):
        with pytest.raises(OnnxError, match=why):
            run_node("QuantizeLinear", [X, scale], version=21, **options)
    with pytest.raises(OnnxError, match="the zero point is uint8, and the output is to be int8"):
        run_node("QuantizeLinear", [X, scalar(1), scalar(0, np.uint8)], version=21, output_dtype=TensorProto.INT8)


@pytest.mark.slow
@each("way", QUICK_WAYS)
@each(
    "dtype, expected",
    [
        (ml_dtypes.int4, [[-5, 0, 0, 2], [2, 4, 7, -8]]),
        (ml_dtypes.uint4, [[0, 0, 0, 2], [2, 4, 15, 0]]),
        (ml_dtypes.int2, [[-2, 0, 0, 1], [1, 1, 1, -2]]),
        (ml_dtypes.float8_e4m3fn, [[-5, 0, 0.5, 1.5], [2.5, 3.5, 144, -144]]),
        (ml_dtypes.float4_e2m1fn, [[-4, 0, 0.5, 1.5], [2, 4, 6, -6]]),
    ],
)
def test_types_of_few_bits(way: str, dtype: Any, expected: Any) -> None:
    (found,) = run_node("QuantizeLinear", [X, scalar(2), np.zeros((), dtype)], way, version=25)
    assert found.dtype == dtype
    assert np.asarray(found).astype(F).tolist() == expected
    (real,) = run_node("DequantizeLinear", [np.array(expected).astype(dtype), scalar(2), np.zeros((), dtype)], way, version=25)
    np.testing.assert_array_equal(real, 2 * np.array(expected, F))


@each("version", [10, 13, 19, 21])
def test_dequantize_linear(version: int) -> None:
    agrees([np.array([-256, 0, 254], F)], "DequantizeLinear", [of(0, 128, 255), scalar(2), scalar(128, np.uint8)], version=version)
    agrees([np.array([-3, 2.0**20], F)], "DequantizeLinear", [of(-6, 2**21, dtype=np.int32), scalar(0.5)], version=version)
    if version < 19:
        agrees_with_onnxruntime("DequantizeLinear", [of(0, 128, 255), scalar(2), scalar(128, np.uint8)], version=version)


def test_what_is_no_number_or_too_large_is_limited() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1e30], F)
    agrees([of(127, -128, 5, 127, dtype=np.int8)], "QuantizeLinear", [x, scalar(0.1), scalar(5, np.int8)], version=13)


@each("x", [np.array([0, 2, -3, -2.5, 1.34, 0.5], F), np.array([[-1, -2.1], [-1.3, -2.5]], F), np.array([1, 2.1, 4], F)])
def test_dynamic_scales(x: np.ndarray[Any, Any]) -> None:
    agrees_with_onnxruntime("DynamicQuantizeLinear", [x], version=11, outputs=3)


def test_nothing_but_zeros_has_the_scale_1() -> None:
    agrees([of(0, 0), scalar(1), scalar(0, np.uint8)], "DynamicQuantizeLinear", [np.zeros(2, F)], version=11)


# ---- products


def test_zero_points_of_rows_and_columns() -> None:
    a, b = random(3, 4, dtype=np.uint8), random(4, 2, dtype=np.uint8, seed=1)
    rows, columns = of(1, 2, 3), of(4, 5)
    expected = (a.astype(np.int32) - rows[:, None].astype(np.int32)) @ (b.astype(np.int32) - columns.astype(np.int32))
    agrees([expected], "MatMulInteger", [a, b, rows, columns], version=10)
    agrees([expected], "MatMulInteger", [a, b, rows[:, None], columns[None]], version=10, ways=("jit",))
