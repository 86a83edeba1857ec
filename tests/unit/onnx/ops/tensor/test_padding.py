"""Pad: each version, its modes, elements that are taken away, and one operation in a program."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import run_node
from tests.unit.onnx.ops.versions import missing, versions
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = np.arange(6).reshape(2, 3).astype(F)


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def pads(version: int, numbers: list[int]) -> tuple[list[Any], dict[str, Any]]:
    """(more inputs, attributes) that say how much is added."""
    if version < 11:
        return [], {"paddings" if version == 1 else "pads": numbers}
    return [ints(*numbers)], {}


def test_every_version_below_12_has_a_case() -> None:
    assert not missing("padding", [("Pad", version) for version in versions("Pad")])


@each("version", versions("Pad"))
@each("mode", ["constant", "reflect", "edge"])
def test_modes(version: int, mode: str) -> None:
    more, attributes = pads(version, [1, 2, 0, 1])
    expected = np.pad(X, ((1, 0), (2, 1)), mode=mode)
    agrees([expected], "Pad", [X, *more], version=version, mode=mode, ways=("known", "jit"), **attributes)


@each("version", versions("Pad"))
def test_constants(version: int) -> None:
    more, attributes = pads(version, [0, 1, 0, 0])
    expected = np.pad(X, ((0, 0), (1, 0)), constant_values=2.5)
    if version < 11:
        agrees([expected], "Pad", [X, *more], version=version, value=2.5, **attributes)
    else:
        agrees([expected], "Pad", [X, *more, np.array(2.5, F)], version=version)
        agrees([expected], "Pad", [X, *more, np.array([2.5], F)], version=version, ways=("jit",))


@each("version", [2, 11, 25])
def test_negative_numbers_take_away(version: int) -> None:
    more, attributes = pads(version, [0, -1, 1, 2])
    for mode in ("constant", "edge"):
        expected = np.pad(X[:, 1:], ((0, 1), (0, 2)), mode=mode)
        agrees([expected], "Pad", [X, *more], version=version, mode=mode, ways=("known", "jit"), **attributes)
    with pytest.raises(OnnxError, match="take more from"):
        run_node("Pad", [X, *pads(version, [0, -2, 0, -2])[0]], version=version, **pads(version, [0, -2, 0, -2])[1])


def test_a_program_has_one_operation() -> None:
    assert primitives(function_of("Pad", [X, ints(0, -1, 1, 2)], version=13), X) == ["pad"]
    with pytest.raises(DynamicShapeError, match="needs the pads"):
        run_node("Pad", [X, ints(0, 0, 0, 0)], "jit", version=13, static=[])
    huge = jax.eval_shape(lambda: run_node("Pad", [np.ones(1, F), ints(0, 1 << 28)], "known", version=13)[0])
    assert huge.shape == ((1 << 28) + 1,)
