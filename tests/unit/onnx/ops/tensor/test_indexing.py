"""Slices, splits, gathers and scatters: each old version, indices from the back and beyond, and what programs are made of."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import run_node
from tests.unit.onnx.ops.versions import missing, versions
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = np.arange(24).reshape(2, 3, 4).astype(F)
LOWEST, HIGHEST = -(2**63), 2**63 - 1
NAN = np.nan


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


@pytest.mark.slow
def test_every_version_below_12_has_a_case() -> None:
    names = ("Slice", "Split", "Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")
    assert not missing("indexing", [(name, version) for name in names for version in versions(name)])


# ---- slices

SLICES: list[tuple[list[int], list[int], list[int] | None, list[int] | None, Any]] = [
    ([1], [3], [1], None, X[:, 1:3]),
    ([0, 1], [1, -1], None, None, X[:1, 1:-1]),
    ([-2, 0], [HIGHEST, 1000], [2, 0], None, X[..., -2:]),
    ([5], [9], [1], None, X[:, :0]),
    ([2], [1], [1], None, X[:, :0]),
    ([LOWEST], [2], [2], None, X[..., :2]),
    ([0], [HIGHEST], [2], [3], X[..., ::3]),
    ([HIGHEST], [LOWEST], [-1], [-1], X[..., ::-1]),
    ([-1], [-4], [2], [-2], X[..., [3, 1]]),
    ([-100], [-200], [2], [-1], X[..., :1]),  # the start is limited to the axis, so that element 0 is in
    ([1, 3], [LOWEST, 0], [1, 2], [-1, -2], X[:, 1::-1, 3:0:-2]),
]


@each("starts, ends, axes, steps, expected", SLICES)
@each("version", versions("Slice"))
def test_slices(version: int, starts: list[int], ends: list[int], axes: Any, steps: Any, expected: Any) -> None:
    if version >= 10:
        inputs = [X, *(None if given is None else ints(*given) for given in (starts, ends, axes, steps))]
        agrees([expected], "Slice", inputs, version=version, ways=("known", "jit"))
    elif steps is None:
        attributes = {} if axes is None else {"axes": axes}
        agrees([expected], "Slice", [X], version=version, starts=starts, ends=ends, ways=("known", "jit"), **attributes)


def test_slices_of_nothing_and_steps_of_0() -> None:
    empty = np.zeros((0, 2), F)
    agrees([empty], "Slice", [empty, ints(-1), ints(LOWEST), ints(0), ints(-1)], version=13, ways=("known", "jit"))
    with pytest.raises(OnnxError, match="step of 0"):
        run_node("Slice", [X, ints(0), ints(1), ints(0), ints(0)], version=13)
    with pytest.raises(DynamicShapeError, match="needs the starts"):
        run_node("Slice", [X, ints(0), ints(1)], "jit", version=13, static=[])


def test_a_slice_is_one_operation() -> None:
    assert primitives(function_of("Slice", [X, ints(0, 1), ints(1, 3), ints(0, 2)], version=13), X) == ["slice"]
    assert primitives(function_of("Slice", [X, ints(3), ints(LOWEST), ints(2), ints(-2)], version=13), X) == ["slice", "rev"]


@each("version", versions("Split"))
def test_splits(version: int) -> None:
    uneven = np.split(X, [1, 1], axis=2)
    by_input = version == 1 or version >= 13
    more, attributes = ([ints(1, 0, 3)], {}) if by_input else ([], {"split": [1, 0, 3]})
    agrees(uneven, "Split", [X, *more], version=version, axis=2, ways=("known", "jit"), **attributes)
    even = {"num_outputs": 2} if version >= 18 else {}
    agrees(np.split(X, 2, axis=2), "Split", [X], version=version, axis=2, ways=("known", "jit"), **even)
    agrees([X[:1], X[1:]], "Split", [X], version=version, ways=("jit",), **even)  # axis 0
    with pytest.raises(OnnxError, match="don't make up the 4 of axis 2"):
        run_node(
            "Split", [X, *([ints(1, 1)] if by_input else [])], version=version, axis=2, outputs=2, **({} if by_input else {"split": [1, 1]})
        )


def test_split_1_takes_attributes_too() -> None:
    agrees([X[..., :1], X[..., 1:]], "Split", [X], version=1, axis=2, split=[1, 3], ways=("jit",))


def test_equal_parts_have_to_divide_before_version_18() -> None:
    with pytest.raises(OnnxError, match="3 elements don't divide into 2"):
        run_node("Split", [X], version=13, axis=1, outputs=2)
    agrees([X[:, :2], X[:, 2:]], "Split", [X], version=18, axis=1, num_outputs=2, ways=("jit",))
    five = np.arange(5).astype(F)
    agrees([five[:2], five[2:4], five[4:], five[5:]], "Split", [five], version=18, num_outputs=4, ways=("jit",))
    with pytest.raises(OnnxError, match="2 parts for 3 outputs"):
        run_node("Split", [X], version=18, outputs=3, num_outputs=2)


# ---- reading


def test_text_is_gathered() -> None:
    assert run_node("Gather", [np.array(["a", "b"], object), ints(1, 0, -1)], "known", version=13)[0].tolist() == ["b", "a", "b"]


def test_in_a_program_they_read_nan_and_write_nothing() -> None:
    x = np.array([1, 2, 3], F)
    found = run_node("Gather", [x, ints(2, -3, 3, -4)], "jit", version=13)[0]
    np.testing.assert_array_equal(found, np.array([3, 1, NAN, NAN], F))
    found = run_node("GatherElements", [x, ints(-1, 3)], "jit", version=13)[0]
    np.testing.assert_array_equal(found, np.array([3, NAN], F))
    found = run_node("GatherND", [x, ints(-1, 3)[:, None]], "jit", version=13)[0]
    np.testing.assert_array_equal(found, np.array([3, NAN], F))
    assert run_node("Gather", [x.astype(np.int32), ints(2, 9)], "jit", version=13)[0].tolist() == [3, -(2**31)]
    assert run_node("ScatterElements", [x, ints(-1, 3, -4), np.array([7, 8, 9], F)], "jit", version=13)[0].tolist() == [1, 2, 7]
    assert run_node("ScatterND", [x, ints(-1, 3, -4)[:, None], np.array([7, 8, 9], F)], "jit", version=13)[0].tolist() == [1, 2, 7]


def test_known_indices_in_a_row_are_slices() -> None:
    assert primitives(function_of("Gather", [X, np.array(0)], version=13, axis=1), X) == ["slice", "reshape"]
    assert primitives(function_of("Gather", [X, ints(1, 2)], version=13, axis=1), X) == ["slice"]
    assert primitives(function_of("Gather", [X, ints(1, 2)[None]], version=13, axis=1), X) == ["slice", "reshape"]
    assert "select_n" not in primitives(function_of("Gather", [X, ints(2, 0)], version=13, axis=1), X)


@each("version", versions("GatherElements"))
def test_gathers_of_elements(version: int) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], F)
    agrees([np.array([[4, 8, 3], [7, 2, 3]], F)], "GatherElements", [x, np.array([[1, 2, 0], [2, 0, 0]])], version=version)
    agrees([np.array([[3, 1]], F)], "GatherElements", [x, np.array([[-1, 0]])], version=version, axis=1)  # of the first row only
    agrees([np.array([[1], [6]], F)], "GatherElements", [x, np.array([[0], [2]])], version=version, axis=-1)
    agrees_with_onnxruntime("GatherElements", [x, np.array([[-1, 0], [1, 1]])], version=11, axis=1)
    with pytest.raises(OnnxError, match="reach beyond"):
        run_node("GatherElements", [x, np.zeros((4, 1), np.int64)], version=version, axis=1)


@each("version", versions("GatherND"))
def test_gathers_by_tuples(version: int) -> None:
    agrees([X[[0, 1], [1, -1]]], "GatherND", [X, np.array([[0, 1], [1, -1]])], version=version)
    agrees([X[[[1], [0]]]], "GatherND", [X, np.array([[[1]], [[0]]])], version=version)
    agrees([X[1, 2, [3, 0]]], "GatherND", [X, np.array([[1, 2, 3], [1, 2, 0]])], version=version)
    with pytest.raises(OnnxError, match="4 indices for 3 axes"):
        run_node("GatherND", [X, np.zeros((1, 4), np.int64)], version=version)


@each(
    "dims, indices",
    [(1, np.array([[1], [2]])), (1, np.array([[[1, 0], [2, 3]], [[0, 0], [1, 1]]])), (2, np.array([[[1], [2], [3]], [[0], [0], [1]]]))],
)
def test_axes_that_go_together(dims: int, indices: np.ndarray[Any, Any]) -> None:
    found = [X[(*place, *rest)] for place in np.ndindex(indices.shape[:dims]) for rest in indices[place].reshape(-1, indices.shape[-1])]
    expected = np.stack(found).reshape(*indices.shape[:-1], *X.shape[dims + indices.shape[-1] :])
    agrees([expected], "GatherND", [X, indices], version=12, batch_dims=dims)
    with pytest.raises(OnnxError, match="axes of"):
        run_node("GatherND", [X, indices[:1]], version=12, batch_dims=dims)


# ---- writing


@each("name, version", [("Scatter", 9), *(("ScatterElements", version) for version in versions("ScatterElements"))])
def test_scattered_elements(name: str, version: int) -> None:
    x, updates = np.zeros((3, 3), F), np.array([[1, 1.1, 1.2], [2, 2.1, 2.2]], F)
    expected = np.array([[2, 1.1, 0], [1, 0, 2.2], [0, 2.1, 1.2]], F)
    agrees([expected], name, [x, np.array([[1, 0, 2], [0, 2, 1]]), updates], version=version)
    row = np.array([[1, 2, 3, 4, 5]], F)
    agrees([np.array([[1, 1.1, 3, 4, 2.1]], F)], name, [row, np.array([[1, -1]]), np.array([[1.1, 2.1]], F)], version=version, axis=1)
    with pytest.raises(OnnxError, match="have to agree"):
        run_node(name, [x, np.zeros((2, 3), np.int64), np.zeros((2, 2), F)], version=version)
    with pytest.raises(OnnxError, match="reach beyond"):
        run_node(name, [x, np.zeros((1, 4), np.int64), np.zeros((1, 4), F)], version=version)


@each("version", versions("ScatterND"))
def test_scattered_slices(version: int) -> None:
    x = np.arange(8).astype(F)
    expected = np.array([0, 11, 2, 10, 9, 5, 6, 12], F)
    agrees([expected], "ScatterND", [x, np.array([[4], [3], [1], [-1]]), np.array([9, 10, 11, 12], F)], version=version)
    slices = X.copy()
    slices[1] = 5
    agrees([slices], "ScatterND", [X, np.array([[1]]), np.full((1, 3, 4), 5, F)], version=version)
    with pytest.raises(OnnxError, match=r"should have \[1, 3, 4\]"):
        run_node("ScatterND", [X, np.array([[1]]), np.zeros((3, 4), F)], version=version)


@each("reduction, expected", [("add", [11, 2, 3]), ("mul", [24, 2, 3]), ("max", [6, 2, 3]), ("min", [1, 2, 3])])
def test_combinations_count_every_index(reduction: str, expected: list[int]) -> None:
    x, indices, updates = np.array([1, 2, 3], F), ints(0, -3), np.array([4, 6], F)
    agrees([np.array(expected, F)], "ScatterElements", [x, indices, updates], version=18, reduction=reduction)
    agrees([np.array(expected, F)], "ScatterND", [x, indices[:, None], updates], version=18, reduction=reduction)
    with pytest.raises(OnnxError, match="'sub' is none of none, add"):
        run_node("ScatterElements", [x, indices, updates], version=18, reduction="sub")


def test_caches_have_an_end() -> None:
    cache, update = np.zeros((2, 4, 1), F), np.zeros((2, 2, 1), F)
    for way in ("known", "eager"):
        with pytest.raises(OnnxError, match="index 4 is outside of"):
            run_node("TensorScatter", [cache, update, ints(0, 3)], way, version=24)
    with pytest.raises(OnnxError, match="don't fit into a cache of 4"):
        run_node("TensorScatter", [cache, np.zeros((2, 5, 1), F)], version=24)
    with pytest.raises(OnnxError, match="none of the batch"):
        run_node("TensorScatter", [cache, update], version=24, axis=0)


# ---- gradients
