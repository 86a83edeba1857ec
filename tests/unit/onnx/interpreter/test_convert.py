"""One conversion of elements: known values, eager ones and traced ones become the same."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.together import compiled, each
from tilestep.onnx.interpreter.convert import bits_as, convert, fitting, lower_bound, operands, upper_bound
from tilestep.onnx.interpreter.values import MOST_KNOWN_BYTES, NeedsValueError, NoRoomError, folding

F = np.float32
INF, NAN = np.inf, np.nan


def in_each_way(x: np.ndarray[Any, Any], dtype: Any, **options: Any) -> list[np.ndarray[Any, Any]]:
    """The conversion of known, eager and traced elements. A program without 64-bit types is left out where these matter."""
    with np.errstate(all="ignore"):
        found = [convert(x, dtype, **options)]
    with jax.enable_x64(True):
        found.append(convert(jnp.asarray(x), dtype, **options))
    if max(x.dtype.itemsize, np.dtype(dtype).itemsize) < 8:
        found.append(jax.jit(lambda x: convert(x, dtype, **options))(x))
    return [np.asarray(array) for array in found]


def bits(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Arrays to compare exactly: NaN is NaN whatever its sign."""
    return np.where(np.isnan(x.astype(np.float64)), np.nan, x.astype(np.float64))


def becomes(x: Any, dtype: Any, expected: Any, **options: Any) -> None:
    """Holds of known elements, and of those of programs with and without 64-bit types, unless these matter."""
    x = np.asarray(x)

    def check(found: Any) -> None:
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(bits(np.asarray(found)), np.asarray(expected, np.float64))

    with np.errstate(all="ignore"):
        check(convert(x, dtype, **options))
    for wide in (True, False) if max(x.dtype.itemsize, np.dtype(dtype).itemsize) < 8 else (True,):
        compiled(lambda x: convert(x, dtype, **options), x, check, wide=wide)


@each(
    "dtype, expected",
    [
        (np.int8, [200 - 256, -200 + 256, -1, 0, 0]),
        (np.uint8, [200, 56, 255, 0, 0]),
        (np.int16, [200, -200, -1, 0, 0]),
        (np.int32, [200, -200, 2**31 - 1, -(2**31), 0]),
        (np.uint32, [200, 2**32 - 200, 2**32 - 1, 2**31, 0]),
        (np.int64, [200, -200, 10**12, -(10**12), 0]),
        (np.uint64, [200, 2**64 - 200, 10**12, 2**64 - 10**12, 0]),
        (ml_dtypes.int4, [-8, -8, -1, 0, 0]),
        (ml_dtypes.uint4, [8, 8, 15, 0, 0]),
        (ml_dtypes.int2, [0, 0, -1, 0, 0]),
    ],
)
def test_floats_out_of_range_go_to_the_end_and_lose_bits(dtype: Any, expected: list[int]) -> None:
    becomes(np.array([200, -200, 1e12, -1e12, NAN], np.float64), dtype, expected)
    if np.dtype(dtype).itemsize < 8:
        becomes(np.array([200, -200, 1e12, -1e12, NAN], F), dtype, expected)


LARGEST, SMALLEST = 2.0**127, 2.0**-127
POWERS = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 3.4e38, INF, NAN, -3.0], F)


@each(
    "options, expected",
    [
        ({}, [1, 2, 2, 2, 2, LARGEST, LARGEST, NAN, 4]),
        ({"round_mode": "down"}, [1, 1, 1, 1, 2, LARGEST, LARGEST, NAN, 2]),
        ({"round_mode": "nearest"}, [1, 1, 2, 2, 2, LARGEST, LARGEST, NAN, 4]),
        ({"round_mode": "nearest", "saturate": False}, [1, 1, 2, 2, 2, NAN, NAN, NAN, 4]),
    ],
)
def test_powers_of_two_round_as_they_are_told_to(options: dict[str, Any], expected: list[float]) -> None:
    becomes(POWERS, ml_dtypes.float8_e8m0fnu, expected, **options)


def test_zero_becomes_the_smallest_power_and_modes_have_names() -> None:
    for found in in_each_way(np.array([0.0], F), ml_dtypes.float8_e8m0fnu):
        assert found.astype(np.float64)[0] == SMALLEST
    with pytest.raises(ValueError, match="'sideways' is none of up, down, nearest"):
        convert(POWERS, ml_dtypes.float8_e8m0fnu, round_mode="sideways")


def test_floats_of_6_bits_are_known_only() -> None:
    six = np.dtype(ml_dtypes.float6_e2m3fn)
    assert convert(np.array([1.5, 100], F), six).astype(F).tolist() == [1.5, 7.5]
    assert np.asarray(convert(convert(np.array([1.5], F), six), F)).tolist() == [1.5]
    with pytest.raises(NeedsValueError, match="6 bits"):
        jax.jit(lambda x: convert(x, six))(np.ones(2, F))


def test_text_is_read_and_written() -> None:
    text = np.array(["3.5", " -1e3 ", "INF", "+inf", "-Inf", "NaN"], object)
    np.testing.assert_array_equal(convert(text, F), np.array([3.5, -1000, INF, INF, -INF, NAN], F))
    assert convert(np.array(["12", "9007199254740993", "2.7"], object), np.int64).tolist() == [12, 9007199254740993, 2]
    assert convert(np.array(["300"], object), np.uint8).tolist() == [44]
    assert convert(np.array(["1.5"], object), ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    assert convert(np.array(["True", "0"], object), np.bool_).tolist() == [True, False]
    assert convert(np.array([0.1, 314.15926, 1e-5], F), object).tolist() == ["0.1", "314.15927", "1e-05"]
    assert convert(np.array([1.5], ml_dtypes.bfloat16), object).tolist() == ["1.5"]
    with pytest.raises(ValueError, match="could not convert"):
        convert(np.array(["Hello"], object), F)
    with pytest.raises(NeedsValueError, match="text"):
        jax.jit(lambda x: convert(x, object))(np.ones(2, F))


@each(
    "x, dtype, expected",
    [
        (np.array([1.0, -2.0], F), np.int32, [0x3F800000, -0x40000000]),
        (np.array([-1, 3], np.int8), np.uint8, [255, 3]),
        (np.array([-1, 3]).astype(ml_dtypes.int4), ml_dtypes.uint4, [15, 3]),
        (np.array([15, 3]).astype(ml_dtypes.uint4), ml_dtypes.int4, [-1, 3]),
        (np.array([-1, 1]).astype(ml_dtypes.int2), ml_dtypes.uint2, [3, 1]),
        (np.array([True, False]), np.int8, [1, 0]),
        (np.array([1, 0], np.uint8), np.bool_, [1, 0]),
        (np.array([0x38], np.uint8), ml_dtypes.float8_e4m3fn, [1]),
        (np.array([6]).astype(ml_dtypes.uint4), ml_dtypes.float4_e2m1fn, [4]),
    ],
)
def test_bits_are_read_as_another_type(x: np.ndarray[Any, Any], dtype: Any, expected: list[int]) -> None:
    for found in (bits_as(x, dtype), jax.jit(lambda x: bits_as(x, dtype))(x)):
        assert found.dtype == np.dtype(dtype)
        assert np.asarray(found).astype(np.float64).tolist() == expected


def test_bits_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="int8 has 8 bits and int4 has 4"):
        bits_as(np.zeros(2, np.int8), ml_dtypes.int4)
    with pytest.raises(ValueError, match="64 bits need jax"):
        jax.jit(lambda x: bits_as(x, np.float64))(np.zeros(2, np.int64))


def test_integers_that_jax_would_cut_are_refused_or_bound_nothing() -> None:
    large = np.array([1, 2**40])
    with pytest.raises(OverflowError, match="constant 1099511627776 doesn't fit into int32"):
        fitting(large)
    with jax.enable_x64(True):
        assert fitting(large) is large
    assert fitting(np.array([1, -5])).tolist() == [1, -5]
    assert upper_bound(np.array([2**40, 5])).tolist() == [2**31 - 1, 5]
    assert lower_bound(np.array([-(2**40), 5])).tolist() == [-(2**31), 5]
    assert upper_bound(np.array([2**40], np.uint64)).tolist() == [2**32 - 1]
    for bound, x in ((upper_bound, -(2**40)), (lower_bound, 2**40)):
        with pytest.raises(OverflowError, match="doesn't fit"):
            bound(np.array(x))


def test_results_without_room_are_left_to_jax() -> None:
    column, row = np.zeros((MOST_KNOWN_BYTES // 4, 1), np.int32), np.zeros(2, np.int32)
    assert operands(column, column)[0] is np
    assert operands(column, row)[0] is jnp
    with folding(), pytest.raises(NoRoomError):
        operands(column, row)
