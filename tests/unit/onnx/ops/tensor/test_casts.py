"""Cast as a node. What conversions give stands in the tests of `convert`."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import run_node
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
