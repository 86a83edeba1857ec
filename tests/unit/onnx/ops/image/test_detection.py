"""Non-max suppression as ONNX Runtime has it, eagerly and in programs."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.one_node import WAYS, by_onnxruntime, check_node, run_node
from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun

F = np.float32


def data(seed: int = 0) -> list[Any]:
    """Boxes of any corners, and scores of which many are equal."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(0, 1, (2, 30, 4)).astype(F), np.round(rng.uniform(0, 1, (2, 3, 30)), 1).astype(F)]


@each("version", [10, 11])
@each("center", [0, 1])
@each("threshold", [None, 0.5])
def test_selections_are_onnxruntimes(version: int, center: int, threshold: float | None) -> None:
    inputs = [*data(), np.array([7]), np.array([0.3], F)] + ([np.array([threshold], F)] if threshold else [])
    (want,) = by_onnxruntime("NonMaxSuppression", inputs, version=version, center_point_box=center)

    def check(way: str, outputs: list[Any]) -> None:
        got = np.asarray(outputs[0])
        if way == "jit":
            assert got.shape == (60, 3)
            assert (got[len(want) :] == [2, 3, 30]).all()
            got = got[: len(want)]
        np.testing.assert_array_equal(got, want)

    run = GraphRun(bounds={"the_node": 60})
    ways = ("known", "jit") if version == 11 and bool(center) != bool(threshold) else ("known",)
    check_node("NonMaxSuppression", inputs, check, ways, version=version, center_point_box=center, run=run)


@each("inputs", [data(), [*data(), np.array(0)], [data()[0][:, :0], data()[1][:, :, :0], np.array(3)]])
def test_nothing_is_selected(inputs: list[Any]) -> None:
    def check(way: str, outputs: list[Any]) -> None:
        assert outputs[0].shape == (4 if way == "jit" else 0, 3)

    check_node("NonMaxSuppression", inputs, check, WAYS, version=11, run=GraphRun(bounds={"the_node": 4}))


def test_programs_need_a_bound_that_is_enough() -> None:
    inputs = [*data(), np.array([7]), np.array([0.3], F)]
    with pytest.raises(DynamicShapeError, match=r"the boxes and scores, .* bounds=\{'the_node': 100\}"):
        run_node("NonMaxSuppression", inputs, "jit", version=11)
    (got,) = run_node("NonMaxSuppression", inputs, "jit", version=11, run=GraphRun(bounds={"the_node": 3}))
    assert (np.asarray(got) == np.iinfo(np.int32).min).all()


def test_shapes_must_fit() -> None:
    with pytest.raises(OnnxError, match=r"boxes \[2, 30, 4\] and scores \[2, 3, 29\]"):
        run_node("NonMaxSuppression", [data()[0], data()[1][..., 1:]], version=11)
