"""Elements chosen by conditions, values and places; results whose length depends on values, and their bounds in programs."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of
from tests.unit.onnx.ops.one_node import by_onnxruntime, run_node
from tests.unit.onnx.ops.versions import missing, versions
from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun

F = np.float32
INDEX = np.int64
LOWEST = -(2**31)


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, INDEX)


def bounded(name: str, inputs: Sequence[Any], bound: int, *, outputs: int = 1, version: int = 11, **attributes: Any) -> list[Any]:
    """The outputs of a program in which the node has a bound."""
    run = GraphRun(bounds={"the_node": bound})
    return [np.asarray(x).tolist() for x in run_node(name, inputs, "jit", version=version, outputs=outputs, run=run, **attributes)]


@pytest.mark.slow
def test_every_version_below_12_has_a_case() -> None:
    names = ("Where", "Trilu", "OneHot", "ReverseSequence", "NonZero", "Compress", "Unique")
    assert not missing("selecting", [(name, version) for name in names for version in versions(name)])


def test_triangles_of_other_types() -> None:
    x = np.array([[1, 2], [3, 4]], np.int8)
    agrees([np.array([[1, 0], [3, 4]], np.int8)], "Trilu", [x], version=14, upper=0)
    agrees([np.array([[True, True], [False, True]])], "Trilu", [np.ones((2, 2), bool)], version=14)
    agrees([np.zeros((0, 3), F)], "Trilu", [np.zeros((0, 3), F)], version=14, ways=("known", "jit"))


@each("version", versions("OneHot"))
def test_one_hot(version: int) -> None:
    off_on = np.array([2, 5], F)
    expected = np.array([[5, 2, 2], [2, 2, 5]], F)
    agrees([expected], "OneHot", [ints(0, 2), np.array(3), off_on], version=version)
    agrees([expected.T], "OneHot", [np.array([0, 2], F), np.array([3], F), off_on], version=version, axis=0)
    last = [2, 2, 5] if version >= 11 else [2, 2, 2]
    agrees([np.array([last, [2, 2, 2], [2, 2, 2]], F)], "OneHot", [ints(-1, 3, -4), np.array(3), off_on], version=version)
    agrees([np.array([0, 1], bool)], "OneHot", [np.array(1, np.uint8), np.array(2, np.int8), np.array([False, True])], version=version)
    with pytest.raises(OnnxError, match="axis 2 is outside of"):
        run_node("OneHot", [ints(0), np.array(3), off_on], version=version, axis=2)


def test_one_hot_of_small_types_and_huge_depths() -> None:
    (found,) = run_node("OneHot", [np.array([200], np.uint8), np.array(300), np.array([0, 1])], "known", version=11)
    assert np.flatnonzero(found).tolist() == [200]
    (found,) = run_node("OneHot", [np.array([-1], np.int8), np.array(300), np.array([0, 1])], "known", version=11)
    assert np.flatnonzero(found).tolist() == [299]
    with pytest.raises(DynamicShapeError, match="needs the depth"):
        run_node("OneHot", [ints(0), np.array(3), np.array([0, 1])], "jit", version=11, static=[])
    huge = jax.eval_shape(lambda: run_node("OneHot", [ints(0), np.array(1 << 28), np.array([0, 1], F)], "known", version=11)[0])
    assert huge.shape == (1, 1 << 28)
    agrees_with_onnxruntime("OneHot", [np.array([[0, 2], [-1, 5]]), np.array(3), np.array([2, 5], F)], version=11, axis=1)


@each("version", versions("ReverseSequence"))
def test_sequences_are_reversed(version: int) -> None:
    x = np.arange(16).reshape(4, 4).astype(F)
    expected = x.copy()
    for row, length in enumerate([1, 2, 3, 4]):
        expected[row, :length] = expected[row, :length][::-1]
    agrees([expected], "ReverseSequence", [x, ints(1, 2, 3, 4)], version=version, batch_axis=0, time_axis=1)
    agrees([expected.T], "ReverseSequence", [np.ascontiguousarray(x.T), ints(1, 2, 3, 4)], version=version)
    deep = values(3, 2, 2)
    agrees_with_onnxruntime("ReverseSequence", [deep, ints(3, 0)], version=10)
    with pytest.raises(OnnxError, match="a length of 5 is beyond"):
        run_node("ReverseSequence", [x, ints(1, 2, 3, 5)], version=version)
    with pytest.raises(OnnxError, match="don't fit"):
        run_node("ReverseSequence", [x, ints(1, 2)], version=version)


# ---- results whose length depends on values

PLACES = np.array([[0, 3], [4, 0]], F)
REPEATED = np.array([2, 1, 1, 3, 4, 3], F)


def agrees_with_onnxruntime_eagerly(name: str, inputs: list[Any], *, version: int, **options: Any) -> None:
    outputs = options.pop("outputs", 1)
    expected = by_onnxruntime(name, inputs, version=version, outputs=outputs, **options)
    agrees(expected, name, inputs, version=version, ways=("known", "eager"), **options)


@each("name, inputs", [("NonZero", [PLACES]), ("Compress", [PLACES, np.array([True, False])]), ("Unique", [REPEATED])])
def test_programs_need_a_bound(name: str, inputs: list[Any]) -> None:
    with pytest.raises(DynamicShapeError, match=r"on which the length of its result depends.*bounds=\{'the_node': 100\}"):
        run_node(name, inputs, "jit", version=11)


def test_compress_up_to_a_bound() -> None:
    x, condition = np.arange(6).reshape(3, 2).astype(F), np.array([False, True, True])
    assert bounded("Compress", [x, condition], 3, axis=0) == [[[2, 3], [4, 5], [0, 0]]]
    assert bounded("Compress", [x, condition], 2) == [[1, 2]]
    assert np.isnan(bounded("Compress", [x, condition], 1)).all()  # more than the bound
    assert bounded("Compress", [x.astype(np.int8), condition], 1) == [[-128]]
    slopes = jax.grad(lambda x: function_of("Compress", [x, condition], version=11, axis=0)(x).sum())
    assert slopes(jnp.asarray(x)).tolist() == [[0, 0], [1, 1], [1, 1]]


@each("version", versions("Unique"))
def test_unique(version: int) -> None:
    of_sorted = [np.array([1, 2, 3, 4], F), ints(1, 0, 3, 4), ints(1, 0, 0, 2, 3, 2), ints(2, 1, 2, 1)]
    agrees(of_sorted, "Unique", [REPEATED], version=version, ways=("known", "eager"))
    of_first = [np.array([2, 1, 3, 4], F), ints(0, 1, 3, 4), ints(0, 1, 1, 2, 3, 2), ints(1, 2, 2, 1)]
    agrees(of_first, "Unique", [REPEATED], version=version, sorted=0, ways=("known", "eager"))
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], F)
    agrees([rows[1:], ints(0, 2), ints(0, 0, 1), ints(2, 1)], "Unique", [rows], version=version, axis=0, ways=("known", "eager"))
    agrees([np.zeros(0, F), ints(), ints(), ints()], "Unique", [np.zeros((0, 2), F)], version=version, ways=("known",))
    agrees_with_onnxruntime_eagerly("Unique", [rows], version=11, outputs=4, axis=1)


def test_unique_up_to_a_bound() -> None:
    assert bounded("Unique", [REPEATED], 5, outputs=4) == [[1, 2, 3, 4, 0], [1, 0, 3, 4, 0], [1, 0, 0, 2, 3, 2], [2, 1, 2, 1, 0]]
    assert bounded("Unique", [REPEATED], 5, outputs=4, sorted=0) == [[2, 1, 3, 4, 0], [0, 1, 3, 4, 0], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1, 0]]
    found, first, inverse, counts = bounded("Unique", [REPEATED], 3, outputs=4)  # there are 4
    assert np.isnan(found).all()
    assert first == counts == [LOWEST] * 3
    assert inverse == [LOWEST] * 6
    rows = np.array([[1, 0], [1, 0], [2, 3]], F)
    assert bounded("Unique", [rows], 3, outputs=4, axis=0)[0] == [[1, 0], [2, 3], [0, 0]]


@each(
    "name, inputs, traced",
    [
        ("Trilu", [np.ones((2, 2)), np.array(1)], 1),
        ("Trilu", [np.ones((2, 2), INDEX), np.array(1)], 1),
        ("ReverseSequence", [np.ones((2, 2)), ints(1, 2)], 0),
        ("ReverseSequence", [ints([1, 2], [3, 4]), ints(1, 2)], 1),
        ("OneHot", [ints(0, 1), np.array(3), np.array([0.0, 1.0])], 0),
        ("OneHot", [ints(0, 1), np.array(3), np.array([0.0, 1.0])], 2),
        ("Where", [np.array([True, False]), np.ones(2), np.zeros(2)], 0),
        ("Where", [np.array([True, False]), ints(1, 2), ints(3, 4)], 2),
    ],
)
def test_known_inputs_of_64_bits_beside_a_traced_one(name: str, inputs: list[Any], traced: int) -> None:
    expected = run_node(name, inputs, "known", version=16)
    agrees(expected, name, inputs, version=16, ways=("jit",), static=[i for i in range(len(inputs)) if i != traced])
