"""Blocks of data in a page: one JSON value and columns of numbers, packed so that a browser opens them fast."""

import base64
import gzip
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError

MOST_EXACT: Final = 2**53  # whole numbers up to this are exact in JavaScript
_ALIGNMENT: Final = 8  # bytes
_DTYPES: Final = (("i1", np.int8), ("i2", np.int16), ("i4", np.int32))


@dataclass(frozen=True, kw_only=True)
class PageBlock:
    """What a view reads.

    Attributes:
        json: dicts, lists, strings, numbers, booleans and None. Of whole numbers beyond 2**53 a browser reads the nearest double.
        columns: whole or real numbers, one-dimensional.
    """

    json: Any
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])


def packed(block: PageBlock) -> str:
    """The block as base64 of gzip: the length of the head (4 bytes), the head as JSON, then the columns, each at a multiple of 8 bytes.

    Whole numbers are kept as differences where these are narrower. All is little-endian.

    Raises:
        RecordingError: for a number of a column that JavaScript cannot hold exactly.
        ValueError: for a number that JSON cannot hold at all.
    """
    parts: list[bytes] = []
    columns: list[dict[str, Any]] = []
    offsets: list[int] = []
    size = 0
    for name, column in block.columns.items():
        dtype, delta, values = _narrowed(name, column)
        content = values.astype(values.dtype.newbyteorder("<")).tobytes()
        columns.append({"name": name, "dtype": dtype, "size": len(column), "delta": delta})
        offsets.append(size)
        content += bytes(-len(content) % _ALIGNMENT)
        parts.append(content)
        size += len(content)

    def head(base: int) -> bytes:
        placed = [{**column, "offset": base + offset} for column, offset in zip(columns, offsets, strict=True)]
        document = {"columns": placed, "json": block.json}
        try:
            text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise RecordingError("the recording has a figure that is infinite or no number: a page holds finite ones") from None
        return text.encode("utf-8", "replace")

    base = 0
    while True:  # the offsets' digits are a part of the head's length
        text = head(base)
        needed = -(-(4 + len(text)) // _ALIGNMENT) * _ALIGNMENT
        if needed <= base:
            break
        base = needed
    text += b" " * (base - 4 - len(text))
    whole = struct.pack("<I", len(text)) + text + b"".join(parts)
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def columns_of(names: Sequence[str], rows: Sequence[Sequence[int]], *, rounded: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Columns of rows of whole numbers.

    Args: rounded: names of columns in which a number beyond 2**53 is the nearest double, such as operations of days; the page says 'about'.
    Raises: RecordingError for another number that a page cannot hold.
    """
    columns: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(names):
        column = [row[place] for row in rows]
        most = max(map(abs, column), default=0)
        if most > MOST_EXACT and name not in rounded:
            raise RecordingError(f"column {name!r} has a number of {most.bit_length()} bits: a page holds whole numbers up to 2**53")
        columns[name] = np.array(column, np.float64 if most > MOST_EXACT else np.int64)
    return columns


def _narrowed(name: str, column: NDArray[Any]) -> tuple[str, bool, NDArray[Any]]:
    """(dtype in the page, whether it holds differences, numbers)."""
    if column.dtype.kind == "f":
        return "f8", False, column.astype(np.float64)
    values = column.astype(np.int64)
    for extreme in (int(values.min(initial=0)), int(values.max(initial=0))):
        if abs(extreme) > MOST_EXACT:
            raise RecordingError(f"column {name!r} has {extreme:,}: a page holds whole numbers up to 2**53")
    differences = np.diff(values, prepend=0)
    for numbers, delta in ((values, False), (differences, True)):
        lowest, highest = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
        for dtype, narrow in _DTYPES:
            if np.iinfo(narrow).min <= lowest and highest <= np.iinfo(narrow).max:
                return dtype, delta, numbers.astype(narrow)
    return "f8", False, values.astype(np.float64)
