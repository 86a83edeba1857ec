"""Quantised operators: each old version, granularities, rounding at ties, and products that are exact."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import run_node
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


def test_what_is_no_number_or_too_large_is_limited() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1e30], F)
    agrees([of(127, -128, 5, 127, dtype=np.int8)], "QuantizeLinear", [x, scalar(0.1), scalar(5, np.int8)], version=13)


def test_nothing_but_zeros_has_the_scale_1() -> None:
    agrees([of(0, 0), scalar(1), scalar(0, np.uint8)], "DynamicQuantizeLinear", [np.zeros(2, F)], version=11)


# ---- products


def test_zero_points_of_rows_and_columns() -> None:
    a, b = random(3, 4, dtype=np.uint8), random(4, 2, dtype=np.uint8, seed=1)
    rows, columns = of(1, 2, 3), of(4, 5)
    expected = (a.astype(np.int32) - rows[:, None].astype(np.int32)) @ (b.astype(np.int32) - columns.astype(np.int32))
    agrees([expected], "MatMulInteger", [a, b, rows, columns], version=10)
    agrees([expected], "MatMulInteger", [a, b, rows[:, None], columns[None]], version=10, ways=("jit",))
