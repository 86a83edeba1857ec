"""Messages: all that they can say arrives as it was, and bytes that are no message are refused and do nothing."""

from __future__ import annotations

import collections
import enum
import math
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilestep.train.processes.messages import DEEPEST, LONGEST_BYTES, decode, encode

KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), lambda keys: st.tuples(keys, keys), max_leaves=4
)
VALUES = st.recursive(
    KEYS | st.integers(-(2**2000), 2**2000),
    lambda values: st.lists(values) | st.lists(values).map(tuple) | st.dictionaries(KEYS, values),
    max_leaves=30,
)

FEW = settings(max_examples=25)


def shown(value: Any) -> Any:
    """What tells values apart that are equal, or are not equal to themselves: types, signs of zero, NaNs, order of keys."""
    match value:
        case float():
            return "float", "nan" if math.isnan(value) else struct.pack(">d", value)
        case tuple() | list():
            return type(value).__name__, [shown(each) for each in value]
        case dict():
            return "dict", [(shown(key), shown(each)) for key, each in value.items()]
        case _:
            return type(value).__name__, value


@pytest.mark.slow
@FEW
@given(VALUES)
@example("a lone \udcff surrogate")
@example([0, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63)])
@example([math.inf, -math.inf, math.nan, -math.nan, -0.0, 5e-324])
@example({1: "int", 2.5: "float", "1": "str", b"1": "bytes", None: (), (1, "a"): [{}]})
@example([True, 1, 1.0])
def test_a_value_arrives_as_it_was(value: Any) -> None:
    assert shown(decode(encode(value))) == shown(value)


@FEW
@given(st.binary() | VALUES.map(pickle.dumps))
@example(b"")
@example(b"{}")
@example(b'["l",1')
@example(b'["d",["l"],null]')  # a list is no key
@example(b'["d",["t",["l"]],null]')
@example(b'["d",true,null,1,1]')  # True and 1 are one key
@example(b'["d",1]')
@example(b'["b","\\u0100"]')
@example(b'["x"]')
@example(b"[" * 100_000)
def test_other_bytes_are_refused_or_carry_a_value(data: bytes) -> None:
    require_refused_or_a_value(data)


def require_refused_or_a_value(data: bytes) -> None:
    try:
        value = decode(data)
    except ValueError:
        return
    assert shown(decode(encode(value))) == shown(value)


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        object(),
        len,
        Colour.RED,
        Text("a"),
        np.float32(1),
        np.float64(1),
        np.arange(3),
        np.dtype("int32"),
        collections.OrderedDict(a=1),
        {1, 2},
        bytearray(b"a"),
        1j,
        ValueError("text"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("around", [lambda value: value, lambda value: [0, {"a": (value,)}]], ids=["alone", "within"])
def test_the_sender_refuses_a_value_that_is_no_data(value: Any, around: Any) -> None:
    with pytest.raises(TypeError, match=rf"of type .*{type(value).__qualname__} cannot be sent to the other processes: only None, bool"):
        encode(around(value))


def nested(depth: int) -> Any:
    found: Any = ()
    for _ in range(depth):
        found = [found]
    return found


def test_depth_is_bounded() -> None:
    assert decode(encode(nested(DEEPEST))) == nested(DEEPEST)
    with pytest.raises(ValueError, match=f"is more than {DEEPEST} values deep: put fewer tuples, lists or dicts in each other"):
        encode(nested(DEEPEST + 1))
    with pytest.raises(ValueError, match=f"no message: .*more than {DEEPEST} values deep"):
        decode(b'["l",' * (DEEPEST + 1) + b"null" + b"]" * (DEEPEST + 1))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="values deep"):
        encode(endless)


@pytest.mark.parametrize("value", [b"a" * LONGEST_BYTES, ["a" * (LONGEST_BYTES // 2)] * 2, "é" * (LONGEST_BYTES // 2 + 1)])
def test_length_is_bounded(value: Any) -> None:
    with pytest.raises(ValueError, match=r"a message to the other processes has \d+,\d+,\d+ bytes: at most 16,777,216 can be sent at once"):
        encode(value)
    longest = b"a" * (LONGEST_BYTES - 8)
    assert decode(encode(longest)) == longest
