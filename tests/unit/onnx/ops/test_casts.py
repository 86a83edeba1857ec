"""Cast, CastLike and BitCast as nodes. What conversions give stands in the tests of `convert`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tests.unit.onnx.ops.versions import missing
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32


def test_every_version_below_12_has_a_case() -> None:
    assert not missing("casts", [("Cast", version) for version in (1, 6, 9)])


@each("version, to", [(1, "INT32"), (1, "int32"), (6, TensorProto.INT32), (9, TensorProto.INT32), (13, TensorProto.INT32)])
def test_cast_by_name_and_by_number(version: int, to: Any) -> None:
    agrees([np.array([1, -1, 0], np.int32)], "Cast", [np.array([1.9, -1.9, 0.5], F)], version=version, to=to)


@each("version, to", [(1, "FLOAT17"), (9, 99)])
def test_unknown_types_are_refused(version: int, to: Any) -> None:
    with pytest.raises(OnnxError, match="is unknown"):
        run_node("Cast", [np.ones(2, F)], version=version, to=to)


def test_text_since_version_9() -> None:
    assert run_node("Cast", [np.array(["1.5", "-inf"], object)], "known", version=9, to=TensorProto.FLOAT)[0].tolist() == [1.5, -np.inf]
    assert run_node("Cast", [np.array([1, 2])], "known", version=9, to=TensorProto.STRING)[0].tolist() == ["1", "2"]
    with pytest.raises(DynamicShapeError, match="needs text"):
        run_node("Cast", [np.array([1, 2], np.int32)], "jit", version=9, to=TensorProto.STRING)


@each("way", QUICK_WAYS)
def test_cast_to_floats_of_8_bits(way: str) -> None:
    x = np.array([1e9, 0.3], F)
    (limited,) = run_node("Cast", [x], way, version=19, to=TensorProto.FLOAT8E4M3FN)
    (free,) = run_node("Cast", [x], way, version=19, to=TensorProto.FLOAT8E4M3FN, saturate=0)
    assert np.asarray(limited).astype(F).tolist() == [448, 0.3125]
    assert np.isnan(np.asarray(free).astype(F)).tolist() == [True, False]
    (power,) = run_node("Cast", [np.array([3, 5], F)], way, version=24, to=TensorProto.FLOAT8E8M0, round_mode="down")
    assert np.asarray(power).astype(F).tolist() == [2, 4]


@each("way", QUICK_WAYS)
def test_cast_like_and_bits(way: str) -> None:
    (like,) = run_node("CastLike", [np.array([1.9, -3], F), np.zeros(0, ml_dtypes.bfloat16)], way, version=15)
    assert like.dtype == ml_dtypes.bfloat16
    (bits,) = run_node("BitCast", [np.array([1, 2], F)], way, version=26, to=TensorProto.INT32)
    assert np.asarray(bits).tolist() == [0x3F800000, 0x40000000]
