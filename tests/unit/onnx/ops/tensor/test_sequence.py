"""Sequences and optionals, whose structure is known while their elements may be traced."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.one_node import QUICK_WAYS, model, run_node, run_nodes
from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.interpreter.values import SequenceValue

F = np.float32
A, B, C = (np.full(2, i, F) for i in range(3))
ABC = SequenceValue((A, B, C))


def lists(value: Any) -> Any:
    return [lists(element) for element in value] if isinstance(value, SequenceValue) else np.asarray(value).tolist()


@each(
    "name, inputs, message",
    [
        ("SequenceAt", [ABC, np.array(3)], "position 3 in a sequence of 3"),
        ("SequenceInsert", [ABC, A, np.array(-4)], "position -4 in a sequence of 3"),
        ("SequenceErase", [SequenceValue()], "position -1 in a sequence of 0"),
        ("SequenceLength", [A], "its input is not a sequence"),
        ("SplitToSequence", [A, np.array([1, 2])], "the split .1, 2. of an axis that has 2 elements"),
        ("SplitToSequence", [A, np.array(0)], "the split 0, which must be at least 1"),
        ("OptionalGetElement", [None], "takes 1 to 1|has no element"),
    ],
)
def test_what_is_not_there_is_refused(name: str, inputs: list[Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node(name, inputs, "known", version=18)


def test_a_position_must_be_known() -> None:
    with pytest.raises(DynamicShapeError, match="the position"):
        run_node("SequenceAt", [ABC, np.array(1)], "jit", version=11, static=[])


@each("way", QUICK_WAYS)
@each("version", [11, 24])
def test_split_and_concat(way: str, version: int) -> None:
    x = np.arange(10, dtype=F).reshape(2, 5)
    parts = run_node("SplitToSequence", [x, np.array(2)], way, version=version, axis=-1, static=[1])[0]
    assert [part.shape for part in parts] == [(2, 2), (2, 2), (2, 1)]
    parts = run_node("SplitToSequence", [x, np.array([1, 0, 4])], way, version=version, axis=1, keepdims=0, static=[1])[0]
    assert [part.shape for part in parts] == [(2, 1), (2, 0), (2, 4)]
    rows = run_node("SplitToSequence", [x], way, version=version)[0]
    assert lists(rows) == [[[0, 1, 2, 3, 4]], [[5, 6, 7, 8, 9]]]
    rows = run_node("SplitToSequence", [x], way, version=version, keepdims=0)[0]
    assert lists(rows) == x.tolist()
    assert run_node("SplitToSequence", [x[:, :0]], way, version=version, axis=1)[0] == SequenceValue()
    assert run_node("ConcatFromSequence", [ABC], way, version=11, axis=0)[0].shape == (6,)
    assert lists(run_node("ConcatFromSequence", [ABC], way, version=11, axis=-1, new_axis=1)[0]) == [[0, 1, 2], [0, 1, 2]]


@each("version", [15, 18, 28])
def test_optionals(version: int) -> None:
    assert run_node("Optional", [A], "known", version=version)[0] is A
    assert run_node("OptionalHasElement", [ABC], "known", version=version)[0].tolist() is True
    assert run_node("OptionalGetElement", [ABC], "known", version=version)[0] == ABC
    if version >= 18:
        assert run_node("OptionalHasElement", [], "known", version=version)[0].tolist() is False
        assert run_node("OptionalHasElement", [None], "known", version=version)[0].tolist() is False


@pytest.mark.process  # asks for the body of a function
def test_a_sequence_map_has_onnxs_own_body() -> None:
    graph = model("""g (seq(float[2]) s, float[2] x) => (seq(float[2]) y) {
        y = SequenceMap (s, x) <body = b (float[2] a, float[2] b) => (float[2] c) { c = Add (a, b) }>
    }""")
    assert lists(run_nodes(graph, [ABC, B], "jit")[0]) == [[1, 1], [2, 2], [3, 3]]
