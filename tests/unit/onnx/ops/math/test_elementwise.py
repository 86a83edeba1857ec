"""Arithmetic, comparisons, logic and bits: each old version, and the cases where NumPy, XLA and ONNX part."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.functions import function_of, primitives
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tests.unit.onnx.ops.versions import versions
from tilestep.onnx.errors import OnnxError

F = np.float32


ARITHMETIC: dict[str, Any] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
COMPARED: dict[str, Any] = {"Less": np.less, "Greater": np.greater, "Equal": np.equal}
LOGIC: dict[str, Any] = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
TWO = {**ARITHMETIC, **COMPARED, **LOGIC}
SEVERAL: dict[str, Any] = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min}


def rows(names: Any) -> list[Any]:
    return [(name, version) for name in names for version in versions(name)]


def operands(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    if name in LOGIC:
        return random.integers(0, 2, shape).astype(bool)
    if name in COMPARED:
        return random.integers(0, 3, shape).astype(np.int32 if name == "Equal" else F)
    return random.uniform(0.5, 2, shape).astype(F)


def result(name: str, a: Any, b: Any) -> np.ndarray[Any, Any]:
    return np.asarray(TWO[name](a, b)).astype(bool if name not in ARITHMETIC else F)


@each("name, version", rows(TWO))
def test_functions_of_two_arrays(name: str, version: int) -> None:
    a = operands(name, (2, 3, 4), 0)
    if version >= 7:
        b = operands(name, (3, 1), 1)
        agrees([result(name, a, b)], name, [a, b], version=version, ways=("known", "jit"))
        return
    b = operands(name, (2, 3), 1)
    agrees([result(name, a, b[..., None])], name, [a, b], version=version, axis=0, broadcast=1, ways=("known", "jit"))
    same = operands(name, (2, 3, 4), 2)
    agrees([result(name, a, same)], name, [a, same], version=version, ways=("known",))


@each(
    "shape, axis, laid",
    [
        ((), None, ()),
        ((1, 1), None, ()),
        ((4,), None, (4,)),
        ((3, 4), None, (3, 4)),
        ((3,), 1, (3, 1)),
        ((2,), 0, (2, 1, 1)),
        ((3,), -2, (3, 1)),
    ],
)
def test_old_versions_broadcast_from_an_axis(shape: tuple[int, ...], axis: int | None, laid: tuple[int, ...]) -> None:
    a, b = operands("Add", (2, 3, 4), 0), operands("Add", shape, 1)
    old = {} if axis is None else {"axis": axis}
    agrees([a + b.reshape(laid)], "Add", [a, b], version=6, broadcast=1, ways=("known",), **old)


@each(
    "shape, attributes, why",
    [((4,), {}, "`broadcast` is 0"), ((3,), {"broadcast": 1}, "doesn't fit"), ((3,), {"broadcast": 1, "axis": 2}, "doesn't fit")],
)
def test_old_versions_refuse_other_shapes(shape: tuple[int, ...], attributes: dict[str, int], why: str) -> None:
    with pytest.raises(OnnxError, match=why):
        run_node("Mul", [np.ones((2, 3, 4), F), np.ones(shape, F)], version=6, **attributes)


@each("name, version", rows(SEVERAL))
def test_functions_of_several_arrays(name: str, version: int) -> None:
    shape = (2, 1) if version >= 8 else (2, 3)
    arrays = [operands("Add", (2, 3), 0), operands("Add", shape, 1), operands("Add", shape, 2)]
    expected = SEVERAL[name](np.stack(np.broadcast_arrays(*arrays)), axis=0)
    agrees([expected], name, arrays, version=version, ways=("known", "jit"))
    agrees([arrays[0]], name, arrays[:1], version=version, ways=("known",))


def test_several_arrays_did_not_broadcast_before_version_8() -> None:
    with pytest.raises(OnnxError, match="came with version 8"):
        run_node("Max", [np.ones((2, 3), F), np.ones(3, F)], version=6)


@pytest.mark.slow
def test_integers_divide_towards_zero() -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 5], np.int32)
    b = np.array([2, 2, -2, -2, 3, 3, 0], np.int32)
    agrees([np.array([3, -3, -3, 3, 2, -2, -1], np.int32)], "Div", [a, b], version=14)
    large = np.array([2**62 + 1, -(2**62) - 1])  # beyond the integers of a float64
    agrees([np.array([2**61, -(2**61)])], "Div", [large, np.array(2)], version=14, ways=("known", "eager"))
    agrees([np.array([127, 255], np.uint8)], "Div", [np.array([255, 3], np.uint8), np.array([2, 0], np.uint8)], version=14)


@pytest.mark.slow
def test_powers_have_the_type_of_the_base() -> None:
    agrees(
        [np.array([8, 0, -1, 1], np.int32)], "Pow", [np.array([2, 2, -1, -1], np.int32), np.array([3, -1, -3, -2], np.int64)], version=13
    )
    agrees([np.array([9, 1, 2], np.int32)], "Pow", [np.array([3, 3, 4], np.int32), np.array([2, 0, 0.5], F)], version=13)
    agrees([np.array([3**39])], "Pow", [np.array([3]), np.array([39])], version=13, ways=("known", "eager"))
    agrees([np.array([0.25, 4, -8], F)], "Pow", [np.array([2, 2, -2], F), np.array([-2, 2, 3], np.int64)], version=13)


@each("shape", [(), (1,)])
def test_a_whole_exponent_that_is_known_gives_whole_powers(shape: tuple[int, ...]) -> None:
    """Floats of 32 bits have no number for the square of 4,097."""
    x, y = np.array([4097, -3], np.int32), np.full(shape, 2, F)
    agrees([np.array([4097**2, 9], np.int32)], "Pow", [x, y], version=13, ways=("jit",), static=[1], rtol=0, atol=0)


@each("exponent", [-1, 1, 2, 3])
def test_small_powers_are_products(exponent: int) -> None:
    x, y = np.array([-2, 0.5, 3], F), np.array(exponent, F)
    agrees([x**exponent], "Pow", [x, y], version=7, ways=("jit",), static=[1])
    assert primitives(function_of("Pow", [x, y], version=7), x) == ["integer_pow"]


def test_remainders_have_the_sign_that_is_asked_for() -> None:
    a, b = np.array([-4, 7, 5, 4, -7, 8], np.int32), np.array([2, -3, 8, -2, 3, 5], np.int32)
    agrees([np.array([0, -2, 5, 0, 2, 3], np.int32)], "Mod", [a, b], version=10)
    agrees([np.array([0, 1, 5, 0, -1, 3], np.int32)], "Mod", [a, b], version=10, fmod=1)
    real = [np.array([-4.3, 7.2, 5.0], F), np.array([2.1, -3.4, 8.0], F)]
    agrees([np.fmod(*real)], "Mod", real, version=10, fmod=1)
    agrees([np.mod(*real)], "Mod", real, version=28)


@each("divisor, rests", [(0, [-4, 7, 200]), (1, [0, 0, 0]), (-1, [0, 0, 0])])
def test_truncated_remainders_of_integers_for_a_divisor_of_0_or_1(divisor: int, rests: list[int]) -> None:
    a = np.array([-4, 7, 200], np.int32)
    for b in (np.full(3, divisor, np.int32), np.array(divisor, np.int32)):
        agrees([np.array(rests, np.int32)], "Mod", [a, b], version=10, fmod=1)
    if divisor >= 0:
        agrees([np.array(rests[1:], np.uint8)], "Mod", [a[1:].astype(np.uint8), np.full(2, divisor, np.uint8)], version=10, fmod=1)


@each("way", QUICK_WAYS)
def test_remainders_of_special_floats(way: str) -> None:
    inf, nan = np.inf, np.nan
    a = np.array([0.0, -0.0, 0.0, inf, 1, 1, -1, 0, 2, nan], F)
    b = np.array([3, 3, -3, 2, 0, inf, inf, inf, -inf, 1], F)
    found = np.asarray(run_node("Mod", [a, b], way, version=28)[0])
    np.testing.assert_array_equal(found, np.array([0, 0, -0.0, nan, nan, 1, inf, 0, -inf, nan], F))
    assert np.signbit(found[:3]).tolist() == [False, False, True]


@each("version", [11, 28])
def test_shifts_beyond_the_width_leave_nothing(version: int) -> None:
    x, by = np.array([255, 255, 255, 1], np.uint8), np.array([1, 8, 200, 7], np.uint8)
    agrees([np.array([254, 0, 0, 128], np.uint8)], "BitShift", [x, by], version=version, direction="LEFT")
    agrees([np.array([127, 0, 0, 0], np.uint8)], "BitShift", [x, by], version=version, direction="RIGHT")
    if version == 28:
        signed, more = np.array([-8, -8, 8, -8], np.int8), np.array([1, 9, 9, -1], np.int8)
        agrees([np.array([-4, -1, 0, -1], np.int8)], "BitShift", [signed, more], version=version, direction="RIGHT")
        agrees([np.array([-16, 0, 0, 0], np.int8)], "BitShift", [signed, more], version=version, direction="LEFT")
    with pytest.raises(OnnxError, match="neither LEFT nor RIGHT"):
        run_node("BitShift", [x, by], version=version, direction="UP")


def test_text_is_compared() -> None:
    (same,) = run_node("Equal", [np.array(["a", "b"], object), np.array(["a", "c"], object)], "known", version=19)
    assert same.dtype == bool
    assert same.tolist() == [True, False]


def test_infinite_and_missing_numbers() -> None:
    x = np.array([-np.inf, np.nan, 1, np.inf], F)
    agrees([np.array([False, True, False, False])], "IsNaN", [x], version=9)
    agrees([np.array([True, False, False, True])], "IsInf", [x], version=10)
    agrees([np.array([False, False, False, True])], "IsInf", [x], version=10, detect_negative=0)
    agrees([np.array([True, False, False, False])], "IsInf", [x], version=10, detect_positive=0)
    agrees([np.array([False] * 4)], "IsInf", [x], version=10, detect_positive=0, detect_negative=0)


@each("version", [1, 6])
def test_clip_by_attributes(version: int) -> None:
    x = np.array([-3, 0.5, 2, np.inf, -np.inf], F)
    agrees([np.array([-1, 0.5, 1, 1, -1], F)], "Clip", [x], version=version, min=-1.0, max=1.0)
    agrees([np.array([0, 0.5, 2, np.inf, 0], F)], "Clip", [x], version=version, min=0.0)
    agrees([x], "Clip", [x], version=version)  # the default of version 6 is no bound
    wide = np.array([1e300, -1e300])
    agrees([wide], "Clip", [wide], version=version, ways=("known", "eager"))


def test_a_large_outer_sum_is_left_to_the_program() -> None:
    rows, columns = np.ones((1 << 14, 1), F), np.ones((1, 1 << 13), F)  # 512 MiB
    shapes = jax.eval_shape(lambda: run_node("Add", [rows, columns], "known", version=13)[0])
    assert shapes.shape == (1 << 14, 1 << 13)


@each("name", [*ARITHMETIC, *COMPARED, "Max", "Mean", "Mod", "Clip"])
@each("dtype", [np.float64, np.int64])
def test_known_operands_of_64_bits_beside_traced_ones(name: str, dtype: Any) -> None:
    if dtype == np.int64 and name == "Mean":
        return
    operand, options = np.array([3, 2, 4], dtype), {"fmod": 1} if name == "Mod" else {}
    inputs = [operand, operand[:1], operand[2:]] if name == "Clip" else [operand, operand[::-1].copy()]
    expected = run_node(name, inputs, "known", version=13, **options)[0]
    for position in range(2):
        agrees([expected], name, inputs, version=13, ways=("jit",), static=[i for i in range(len(inputs)) if i != position], **options)
