"""Quantised operators: each old version, granularities, rounding at ties, and products that are exact."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tests.unit.onnx.ops.together import each
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


@each("version", [10, 13, 19, 21, 23, 28])
def test_quantize_linear(version: int) -> None:
    scale = scalar(2)
    agrees([of([123, 128, 128, 130], [130, 132, 255, 0])], "QuantizeLinear", [X, scale, scalar(128, np.uint8)], version=version)
    agrees([of([-5, 0, 0, 2], [2, 4, 127, -128], dtype=np.int8)], "QuantizeLinear", [X, scale, scalar(0, np.int8)], version=version)
    agrees([of([0, 0, 0, 2], [2, 4, 150, 0])], "QuantizeLinear", [X, scale], version=version)  # halves go to even: 0.5, 1.5, 2.5, 3.5
    if version < 19:
        agrees_with_onnxruntime("QuantizeLinear", [X, scale, scalar(128, np.uint8)], version=version)


def test_quotients_are_rounded_once() -> None:
    # 5 / 255 is a bit more than its float32: -2.5 of it is -127.49999, and 1 / scale would give -127.5.
    scale = scalar(5 / 255)
    x = np.array([-2.5, 1.34, 2.0], F)
    agrees([np.rint(x / scale).astype(np.int16)], "QuantizeLinear", [x, scale, scalar(0, np.int16)], version=21)
    many = (np.arange(-2000, 2000) * F(0.5) * scale).astype(F)
    agrees([np.clip(np.rint(many / scale), -2000, 2000).astype(np.int16)], "QuantizeLinear", [many, scale, scalar(0, np.int16)], version=21)


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


@each("way", QUICK_WAYS)
def test_types_of_scales(way: str) -> None:
    half = np.array([0.1, 65504], np.float16)
    (found,) = run_node("QuantizeLinear", [half, np.array(0.1, np.float16)], way, version=21)
    assert np.asarray(found).tolist() == [1, 255]
    (real,) = run_node("DequantizeLinear", [np.array([65535], np.uint16), np.array(0.5, np.float16)], way, version=21)
    assert real.dtype == np.float16
    assert np.asarray(real).tolist() == [32768]  # 65535 itself is no float16
    power = np.array(0.5).astype(ml_dtypes.float8_e8m0fnu)
    (real,) = run_node("DequantizeLinear", [of(3), power], way, version=25, output_dtype=TensorProto.BFLOAT16)
    assert real.dtype == ml_dtypes.bfloat16
    assert np.asarray(real).astype(F).tolist() == [1.5]
    (found,) = run_node("QuantizeLinear", [X, power], way, version=25, precision=TensorProto.FLOAT, output_dtype=TensorProto.INT8)
    assert np.asarray(found).tolist() == [[-20, 0, 2, 6], [10, 14, 127, -128]]


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


@each("kinds", [(np.uint8, np.uint8), (np.int8, np.int8), (np.uint8, np.int8)])
def test_products_of_integers_are_exact(kinds: tuple[Any, Any]) -> None:
    a, b = random(2, 3, 300, dtype=kinds[0]), random(300, 2, dtype=kinds[1], seed=1)
    zeros = scalar(7, kinds[0]), scalar(9, kinds[1])
    expected = (a.astype(np.int32) - 7) @ (b.astype(np.int32) - 9)
    agrees([expected], "MatMulInteger", [a, b, *zeros], version=10, rtol=0)
    agrees([a.astype(np.int32) @ b.astype(np.int32)], "MatMulInteger", [a, b], version=10, rtol=0, ways=("jit",))


def test_zero_points_of_rows_and_columns() -> None:
    a, b = random(3, 4, dtype=np.uint8), random(4, 2, dtype=np.uint8, seed=1)
    rows, columns = of(1, 2, 3), of(4, 5)
    expected = (a.astype(np.int32) - rows[:, None].astype(np.int32)) @ (b.astype(np.int32) - columns.astype(np.int32))
    agrees([expected], "MatMulInteger", [a, b, rows, columns], version=10)
    agrees([expected], "MatMulInteger", [a, b, rows[:, None], columns[None]], version=10, ways=("jit",))


@each("version", [10, 21])
def test_quantised_products(version: int) -> None:
    a, b = random(2, 4, dtype=np.uint8), random(4, 3, dtype=np.uint8, seed=1)
    scales = scalar(0.0066), scalar(0.00705), scalar(0.0107)
    zeros = scalar(113, np.uint8), scalar(114, np.uint8), scalar(118, np.uint8)
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    agrees_with_onnxruntime("QLinearMatMul", inputs, version=version)
    by_row = [a, np.array([0.0066, 0.01], F), of(113, 100), b, np.array([0.007, 0.008, 0.009], F), of(114, 1, 2), scales[2], zeros[2]]
    real = (a - by_row[2][:, None].astype(F)) * by_row[1][:, None] @ ((b - by_row[5].astype(F)) * by_row[4])
    expected = np.clip(np.rint(real / scales[2]) + 118, 0, 255).astype(np.uint8)
    agrees([expected], "QLinearMatMul", by_row, version=version)


def test_convolutions_of_integers() -> None:
    x, w = random(1, 4, 5, 5, dtype=np.uint8), random(6, 2, 3, 3, dtype=np.uint8, seed=1)
    options: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": 2}
    agrees_with_onnxruntime("ConvInteger", [x, w, scalar(7, np.uint8), scalar(9, np.uint8)], version=10, **options)
    agrees_with_onnxruntime("ConvInteger", [x, w], version=10, auto_pad="SAME_UPPER", group=2)
    by_channel = random(6, dtype=np.uint8, seed=2)
    (shifted,) = run_node("ConvInteger", [x, w, scalar(7, np.uint8), by_channel], version=10, **options)
    for channel in range(6):
        inputs = [x, w, scalar(7, np.uint8), by_channel[channel]]
        (same,) = run_node("ConvInteger", inputs, version=10, **options)
        np.testing.assert_array_equal(shifted[:, channel], same[:, channel])


def test_quantised_convolutions() -> None:
    x, w = random(1, 3, 5, 5, dtype=np.uint8), random(4, 3, 3, 3, dtype=np.uint8, seed=1)
    bias = random(4, dtype=np.int16, seed=2).astype(np.int32)
    x_parts, y_parts = (scalar(0.004), scalar(132, np.uint8)), (scalar(0.03), scalar(123, np.uint8))
    one = [x, *x_parts, w, scalar(0.002), scalar(115, np.uint8), *y_parts, bias]
    agrees_with_onnxruntime("QLinearConv", one, version=10, pads=[1, 0, 1, 0])
    each = [x, *x_parts, w, np.array([0.001, 0.002, 0.003, 0.004], F), np.full(4, 115, np.uint8), *y_parts]
    agrees_with_onnxruntime("QLinearConv", each, version=10)
