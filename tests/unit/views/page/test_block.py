"""Blocks of a page: what is packed is what was given, narrow and exact, or an error."""

import base64
import gzip
import json
import struct
from typing import Any

import numpy as np
import pytest

from tilestep.errors import RecordingError
from tilestep.views.page.block import MOST_EXACT, PageBlock, columns_of, packed


def unpacked(text: str) -> tuple[dict[str, Any], bytes]:
    """(the head, the whole block)."""
    whole = gzip.decompress(base64.b64decode(text, validate=True))
    (length,) = struct.unpack_from("<I", whole)
    return json.loads(whole[4 : 4 + length]), whole


def column(text: str, name: str) -> np.ndarray[Any, Any]:
    """A column, read as a browser reads it."""
    head, whole = unpacked(text)
    (found,) = (each for each in head["columns"] if each["name"] == name)
    values = np.frombuffer(whole, f"<{found['dtype']}", found["size"], found["offset"]).astype(np.float64)
    return np.cumsum(values) if found["delta"] else values


def dtype_of(values: Any) -> tuple[str, bool]:
    (found,) = unpacked(packed(PageBlock(json=None, columns={"x": np.array(values)})))[0]["columns"]
    return found["dtype"], found["delta"]


def test_json_comes_back() -> None:
    value = {"a": [1, 2.5, None, True, "é</script>\u2028"], "b": {}}
    assert unpacked(packed(PageBlock(json=value)))[0] == {"columns": [], "json": value}


def test_columns_come_back_whatever_lies_between_them() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        columns = {
            f"column {index}": rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), rng.integers(0, 50))
            for index, bits in enumerate(rng.integers(2, 54, 12))
        }
        text = packed(PageBlock(json="x" * int(rng.integers(0, 40)), columns=columns))
        for name, values in columns.items():
            assert column(text, name).tolist() == values.tolist(), seed


def test_each_column_is_where_a_typed_array_can_be() -> None:
    for length in range(20):  # of the head
        columns = {"a": np.arange(3), "b": np.array([0.5]), "c": np.array([2**40]), "d": np.array([], int)}
        head, whole = unpacked(packed(PageBlock(json="x" * length, columns=columns)))
        assert [each["offset"] % 8 for each in head["columns"]] == [0] * 4
        assert all(each["offset"] + each["size"] * int(each["dtype"][1]) <= len(whole) for each in head["columns"])


def test_whole_numbers_are_as_narrow_as_they_can_be() -> None:
    for values, expected in (
        ([127, -128], ("i1", False)),
        ([0, 128], ("i2", False)),
        ([2**15, 2**15 + 1], ("i4", False)),
        ([2**31, 2**31 + 1], ("f8", False)),
        (range(2**31, 2**31 + 3), ("f8", False)),
        (np.arange(0, 2**33, 2**30), ("i4", True)),  # differences are narrower
        ([MOST_EXACT, -MOST_EXACT], ("f8", False)),
        ([], ("f8", False)),
        ([1.0], ("f8", False)),
        (np.array([255], np.uint8), ("i2", False)),
        (np.array([True, False]), ("i1", False)),
    ):
        assert dtype_of(values) == expected, values


@pytest.mark.parametrize("value", [MOST_EXACT + 1, -MOST_EXACT - 1, 2**63 - 1, -(2**63)])
def test_a_number_that_javascript_would_round_is_an_error(value: int) -> None:
    with pytest.raises(RecordingError, match=rf"column 'cycles' has {value:,}: a page holds whole numbers up to 2\*\*53"):
        packed(PageBlock(json={}, columns={"cycles": np.array([0, value])}))


def test_columns_of_rows_are_exact_or_said_to_be_rounded() -> None:
    rows = [(1, MOST_EXACT), (2, 2**60 + 1)]
    found = columns_of(("steps", "flops"), rows, rounded=("flops", "steps"))
    assert (found["steps"].dtype, found["flops"].tolist()) == (np.int64, [float(MOST_EXACT), 2.0**60])
    with pytest.raises(RecordingError, match=r"column 'flops' has a number of 61 bits: a page holds whole numbers up to 2\*\*53"):
        columns_of(("steps", "flops"), rows, rounded=("steps",))
    assert {name: len(column) for name, column in columns_of(("a", "b"), []).items()} == {"a": 0, "b": 0}


def test_lone_surrogates_are_replaced() -> None:
    assert unpacked(packed(PageBlock(json=["\ud800x"])))[0]["json"] == ["?x"]


def test_equal_blocks_give_equal_pages() -> None:
    block = PageBlock(json={"x": 1}, columns={"a": np.arange(100)})
    assert packed(block) == packed(block)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_an_error_of_the_recording(value: float) -> None:
    with pytest.raises(RecordingError, match="a figure that is infinite or no number"):
        packed(PageBlock(json={"share": value}))
