"""Messages: what JSON has arrives as it was, and bytes that are no message are refused and do nothing."""

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilestep.train.processes.messages import LONGEST_BYTES, decode, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=30,
)


@settings(max_examples=25)
@given(VALUES)
@example("a lone \udcff surrogate")
@example([math.inf, -math.inf, math.nan, -0.0, 5e-324, 2**63])
def test_a_value_arrives_as_it_was(value: Any) -> None:
    assert repr(decode(encode(value))) == repr(value)


@settings(max_examples=25)
@given(st.binary() | VALUES.map(pickle.dumps))
@example(b"[" * 100_000)
@example(b"1" * 10_000)
def test_other_bytes_are_refused_or_are_json(data: bytes) -> None:
    error = ""
    try:
        assert repr(decode(data)) == repr(json.loads(data))
    except ValueError as refusal:
        error = str(refusal)
    assert not error or (error.startswith("no message: ") and len(error) < 300)


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="type bytes is not JSON serializable"):
        encode([b"x"])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="Circular reference"):
        encode(endless)


@pytest.mark.parametrize("value", ["a" * LONGEST_BYTES, ["a" * (LONGEST_BYTES // 2)] * 2, "é" * (LONGEST_BYTES // 2 + 1)])
def test_length_is_bounded(value: Any) -> None:
    with pytest.raises(ValueError, match=r"a message to the other processes has \d+,\d+,\d+ bytes: at most 16,777,216 can be sent at once"):
        encode(value)
    longest = "a" * (LONGEST_BYTES - 2)
    assert decode(encode(longest)) == longest
