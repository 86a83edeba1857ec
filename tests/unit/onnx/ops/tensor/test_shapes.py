"""Shapes of arrays: each old version, empty arrays, what is known under jit, and sizes that a stranger's file may ask for."""

from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tests.unit.onnx.ops.versions import missing, takes, versions
from tilestep.onnx.errors import DynamicShapeError, OnnxError

F = np.float32
X = values(2, 3, 4)
I64 = np.int64


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, I64)


def moved(name: str, version: int, attribute: str, numbers: list[int], since: int) -> tuple[list[Any], dict[str, Any]]:
    """(more inputs, attributes): what is an attribute before the version `since` and an input from then on."""
    assert takes(name, version, attribute) == (version < since)
    return ([], {attribute: numbers}) if version < since else ([ints(*numbers)], {})


@pytest.mark.slow
def test_every_version_below_12_has_a_case() -> None:
    plain = [(name, version) for name in (*VIEWS, "Concat", "Shape", "Size") for version in versions(name)]
    alone = [("Identity", 1), ("Constant", 1), ("Constant", 9), ("Constant", 11), ("Tile", 1), ("Tile", 6), ("Expand", 8)]
    assert not missing("shapes", [*plain, *alone, ("ConstantOfShape", 9), ("EyeLike", 9), ("Range", 11)])


VIEWS: dict[str, list[tuple[str, list[int], int, tuple[int, ...], Any]]] = {  # attribute, its value, input since, input's shape, result
    "Reshape": [
        ("shape", [0, -1], 5, (2, 3, 4), lambda x: x.reshape(2, 12)),
        ("shape", [4, 0, 2], 5, (2, 3, 4), lambda x: x.reshape(4, 3, 2)),
    ],
    "Squeeze": [("axes", [0, 2], 13, (1, 3, 1, 1), lambda x: x.reshape(3, 1))],
    "Unsqueeze": [
        ("axes", [0, 3], 13, (3, 4), lambda x: x.reshape(1, 3, 4, 1)),
        ("axes", [3, 0], 13, (3, 4), lambda x: x.reshape(1, 3, 4, 1)),
    ],
    "Transpose": [("perm", [2, 0, 1], 99, (2, 3, 4), lambda x: x.transpose(2, 0, 1))],
    "Flatten": [("axis", [2], 99, (2, 3, 4), lambda x: x.reshape(6, 4)), ("axis", [0], 99, (2, 3), lambda x: x.reshape(1, 6))],
    "SpaceToDepth": [
        ("blocksize", [2], 99, (1, 2, 4, 6), lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3))
    ],
    "DepthToSpace": [
        ("blocksize", [2], 99, (1, 8, 2, 3), lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6))
    ],
}
ROWS = [(name, version, *case) for name, cases in VIEWS.items() for version in versions(name) for case in cases]


@each("name, version, attribute, numbers, since, shape, result", ROWS)
def test_the_same_elements(
    name: str, version: int, attribute: str, numbers: list[int], since: int, shape: tuple[int, ...], result: Any
) -> None:
    x = values(*shape)
    more, attributes = moved(name, version, attribute, numbers, since)
    if attribute in ("axis", "blocksize"):
        attributes = {attribute: numbers[0]}
    old = {"consumed_inputs": [0]} if takes(name, version, "consumed_inputs") else {}
    agrees([result(x)], name, [x, *more], version=version, ways=("known", "jit"), **attributes, **old)


def test_all_axes_of_length_1_go() -> None:
    for version in (1, 11, 13):
        agrees([X[0, 0]], "Squeeze", [X[:1, :1]], version=version, ways=("jit",))
    agrees([X.T], "Transpose", [X], version=13, ways=("jit",))
    agrees([np.array([[5]], F)], "Flatten", [np.array(5, F)], version=9, axis=0, ways=("jit",))


@each(
    "asked, allowzero, why",
    [
        ([-1, -1], 0, "more than one length"),
        ([0, -1], 1, "both 0 and -1"),
        ([2, 3, 4, 0], 0, "doesn't have"),
        ([5, -1], 0, "reshape"),
        ([-2], 0, "not known"),
    ],
)
def test_shapes_without_meaning_are_refused(asked: list[int], allowzero: int, why: str) -> None:
    with pytest.raises(OnnxError, match=why):
        run_node("Reshape", [X, ints(*asked)], version=14, allowzero=allowzero)


def test_axes_that_are_not_there_are_refused() -> None:
    for name, options in (("Squeeze", {"axes": [3]}), ("Flatten", {"axis": 4}), ("Concat", {"axis": 3})):
        with pytest.raises(OnnxError, match="is outside of"):
            run_node(name, [X], version=11, **options)
    with pytest.raises(OnnxError, match="not equal to one"):
        run_node("Squeeze", [X], "known", version=11, axes=[0])
    with pytest.raises(OnnxError, match="neither DCR nor CRD"):
        run_node("DepthToSpace", [values(1, 4, 1, 1)], version=11, blocksize=2, mode="RDC")


def test_blocks_in_the_other_order() -> None:
    x = values(1, 8, 2, 3)
    wide = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    agrees([wide], "DepthToSpace", [x], version=11, blocksize=2, mode="CRD", ways=("jit",))
    agrees([x], "SpaceToDepth", [wide], version=28, blocksize=2, mode="CRD", ways=("jit",))
    agrees_with_onnxruntime("DepthToSpace", [x], version=11, blocksize=2, mode="CRD")
    agrees_with_onnxruntime("SpaceToDepth", [wide], version=7, blocksize=2)


@each("version", versions("Shape"))
def test_shapes_are_known_in_a_program(version: int) -> None:
    for name, expected in (("Shape", ints(2, 3, 4)), ("Size", np.array(24))):
        agrees([expected], name, [X], version=version)
    assert primitives(function_of("Shape", [X], version=version), X) == []
    if version >= 15:
        agrees([ints(3)], "Shape", [X], version=version, start=-2, end=-1)
        agrees([ints()], "Shape", [X], version=version, start=7)


@each("version", versions("Concat"))
def test_arrays_follow_each_other(version: int) -> None:
    axis = {} if version == 1 else {"axis": 1}
    agrees([np.concatenate([X, X[:, :1]], 1)], "Concat", [X, X[:, :1]], version=version, ways=("known", "jit"), **axis)
    agrees([X], "Concat", [X], version=version, axis=2, ways=("jit",))
    with pytest.raises(OnnxError, match="float32, int64 differ"):
        run_node("Concat", [np.ones(2, F), ints(1)], "known", version=version, axis=0)


def test_known_integers_beyond_32_bits_are_not_cut() -> None:
    with pytest.raises(OnnxError, match="doesn't fit into int32"):
        run_node("Concat", [ints(1), ints(2**40)], "jit", version=13, axis=0, static=[1])
    agrees([ints(1, 2**40)], "Concat", [ints(1), ints(2**40)], version=13, axis=0, ways=("known", "eager"))


def test_tiles() -> None:
    tiles = np.array(3, F), np.array(1, F)  # of the type of x
    agrees([np.tile(X, (1, 3, 1))], "Tile", [X, *tiles], version=1, ways=("known", "jit"))
    for version in (6, 13):
        agrees([np.tile(X, (2, 1, 0))], "Tile", [X, ints(2, 1, 0)], version=version, ways=("known", "jit"))
        with pytest.raises(OnnxError, match="have to be 3 numbers"):
            run_node("Tile", [X, ints(2, 2)], version=version)
    agrees_with_onnxruntime("Tile", [X, ints(2, 1, 3)], version=7)


@each("way", QUICK_WAYS)
def test_identity_is_the_value_itself(way: str) -> None:
    for version in (1, 13):
        agrees([X], "Identity", [X], version=version, ways=(way,))


@each("indices", [ints(1, 5), np.array([[0, 1], [1, 2]])])
def test_sparse_constants(indices: np.ndarray[Any, Any]) -> None:
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.array([7, 9], F)), numpy_helper.from_array(indices), [2, 3])
    node = {"sparse_value": sparse}
    assert run_node("Constant", [], "known", version=11, **node)[0].tolist() == [[0, 7, 0], [0, 0, 9]]
    beyond = onnx.SparseTensorProto()
    beyond.CopyFrom(sparse)
    beyond.dims[:] = [1, 2]
    with pytest.raises(OnnxError, match=r"index outside of \[1, 2\]"):
        run_node("Constant", [], "known", version=11, sparse_value=beyond)


def test_a_constant_has_one_value() -> None:
    with pytest.raises(OnnxError, match="has one value, and this one has 2"):
        run_node("Constant", [], "known", version=12, value_int=1, value_float=1.0)
    with pytest.raises(OnnxError, match="attribute 'value' is a graph of type GRAPH, and must be of type TENSOR"):
        run_node("Constant", [], "known", version=12, value=onnx.helper.make_graph([], "g", [], []))


def test_diagonals() -> None:
    x = np.zeros((3, 4), np.int32)
    for version in (9, 22):
        agrees([np.eye(3, 4, dtype=np.int32)], "EyeLike", [x], version=version)
        agrees([np.eye(3, 4, -1, dtype=F)], "EyeLike", [x], version=version, k=-1, dtype=TensorProto.FLOAT)
    with pytest.raises(OnnxError, match="unpack"):
        run_node("EyeLike", [X], version=9)


@each(
    "start, limit, step, dtype, expected",
    [
        (3, 9, 3, np.int64, [3, 6]),
        (10, 4, -2, np.int32, [10, 8, 6]),
        (10, 5, -2, np.int16, [10, 8, 6]),
        (4, 4, 1, np.int64, []),
        (5, 1, 1, np.int64, []),
        (0, 0.6, 0.2, F, [0, 0.2, 0.4]),
        (1, 0, -0.25, np.float64, [1, 0.75, 0.5, 0.25]),
        (2.0**24, 2.0**24 + 8, 3, F, [2.0**24, 2.0**24 + 4, 2.0**24 + 6]),
    ],
)
def test_ranges(start: Any, limit: Any, step: Any, dtype: Any, expected: list[Any]) -> None:
    inputs = [np.array(number, dtype) for number in (start, limit, step)]
    agrees([np.array(expected, dtype)], "Range", inputs, version=11, rtol=1e-7)


def test_ranges_of_16_bits_and_without_end() -> None:
    inputs = [np.array(number, ml_dtypes.bfloat16) for number in (0, 1000, 3)]
    (found,) = run_node("Range", inputs, "known", version=27)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, np.arange(0, 1000, 3).astype(ml_dtypes.bfloat16))
    with pytest.raises(OnnxError, match="step of 0"):
        run_node("Range", [np.array(n) for n in (0, 5, 0)], version=11)
    with pytest.raises(DynamicShapeError, match="needs the range"):
        run_node("Range", [np.array(n) for n in (0, 5, 1)], "jit", version=11, static=[])


HUGE = 1 << 28


@each(
    "name, inputs",
    [
        ("ConstantOfShape", [ints(HUGE)]),
        ("Expand", [np.ones(1, F), ints(HUGE)]),
        ("Tile", [np.ones(1, F), ints(HUGE)]),
        ("Range", [np.array(0), np.array(HUGE), np.array(1)]),
        ("CenterCropPad", [np.ones(1, F), ints(HUGE)]),
    ],
)
def test_huge_known_results_are_left_to_the_program(name: str, inputs: list[Any]) -> None:
    made = jax.eval_shape(lambda: run_node(name, inputs, "known", version=18)[0])  # nothing is computed
    assert made.shape == (HUGE,)
