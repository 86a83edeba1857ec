"""Columns as bytes of a .npy file: the narrowest whole type on the way out; on the way in, checked against the schema."""

import re
import struct
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.messages import shown
from tilestep.recording.schema import Column

HEADER_BYTES: Final = 1024  # at most, of a column that is read
_MAGIC: Final = b"\x93NUMPY"
_WHOLE: Final = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")  # from the narrowest
_ITEM: Final = r"\s*'(descr|fortran_order|shape)'\s*:\s*('[^']{1,8}'|False|True|\(\s*\d{1,12}\s*,?\s*\))\s*"
_HEADER: Final = re.compile(rf"\{{{_ITEM},{_ITEM},{_ITEM},?\s*\}}\s*")


def column_bytes(column: Column, values: NDArray[Any]) -> bytes:
    """A .npy file of the column, of differences where the schema says so."""
    file = BytesIO()
    np.lib.format.write_array(file, _narrow(column, values), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def column_length(column: Column, begin: bytes, size_bytes: int) -> int:
    """How many elements a .npy file has, from its first `HEADER_BYTES`.

    Args: size_bytes: of the whole file.
    Raises: RecordingError if it cannot hold the column, or has more or fewer bytes than its elements take.
    """
    _, length, offset, itemsize = _header(column, begin)
    if offset + length * itemsize != size_bytes:
        raise RecordingError(f"declares {length:,} elements of {itemsize} B behind a header of {offset} B, but has {size_bytes:,} B")
    return length


def column_values(column: Column, data: bytes) -> NDArray[Any]:
    """The column in the schema's type, without differences.

    Raises: RecordingError as `column_length` does, or if a value does not fit that type.
    """
    length = column_length(column, data[:HEADER_BYTES], len(data))
    descr, _, offset, _ = _header(column, data[:HEADER_BYTES])
    values: NDArray[Any] = np.frombuffer(data, dtype=np.dtype(descr), count=length, offset=offset)
    if column.delta:
        values = np.cumsum(values, dtype=np.int64)
        limits = np.iinfo(column.dtype)
        if length and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            raise RecordingError(f"has differences that sum to {int(values.min()):,} .. {int(values.max()):,}, outside of {column.dtype}")
    return values.astype(column.dtype)


def require_rows(column: Column, values: NDArray[Any], rows: int) -> None:
    """Checks the elements of a column that numbers rows of another table, or texts. Row 0 of frames means "unknown", also if it is absent.

    Args: rows: of that table.
    Raises: RecordingError naming the first element outside of the table.
    """
    bound = max(rows, 1) if column.table == "frames" else rows
    outside = np.flatnonzero((values < -1) | (values >= bound))
    if outside.size:
        row = int(outside[0])
        raise RecordingError(f"has {int(values[row]):,} in row {row:,}: '{column.table}' has {rows:,} rows, and -1 is none")


def _narrow(column: Column, values: NDArray[Any]) -> NDArray[Any]:
    if column.dtype == "float64":
        return values.astype("<f8")
    if column.delta:
        with np.errstate(over="ignore"):  # differences of int64 wrap, and so do their sums
            values = np.diff(values.astype(np.int64), prepend=np.int64(0))
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fitting = (descr for descr in _allowed(column) if np.iinfo(descr).min <= low and high <= np.iinfo(descr).max)
    return values.astype(next(fitting))


def _header(column: Column, begin: bytes) -> tuple[str, int, int, int]:
    """(dtype, length, offset of the elements, bytes of each)."""
    if begin[:6] != _MAGIC or len(begin) < 12 or begin[6:8] not in (b"\x01\x00", b"\x02\x00"):
        raise RecordingError(f"begins with {shown(begin[:8])}: it must be a .npy file of version 1.0 or 2.0")
    form = "<H" if begin[6] == 1 else "<L"
    offset = 8 + struct.calcsize(form) + struct.unpack_from(form, begin, 8)[0]
    if offset > HEADER_BYTES:
        raise RecordingError(f"has a header of {offset:,} B: a column's has at most {HEADER_BYTES:,} B")
    text = begin[8 + struct.calcsize(form) : offset].decode("latin-1")
    found = _HEADER.fullmatch(text)
    fields = dict(zip(found.groups()[::2], found.groups()[1::2], strict=True)) if found else {}
    if len(fields) != 3:
        raise RecordingError(f"has the header {shown(text.rstrip())}: it must be that of a one-dimensional array of numbers")
    descr, order, shape = fields["descr"].strip("'"), fields["fortran_order"], fields["shape"].strip("() \t\n")
    allowed = _allowed(column)
    if order != "False" or not shape.endswith(","):
        raise RecordingError(f"has the header {shown(text.rstrip())}: it must be that of a one-dimensional array in C order")
    if descr not in allowed:
        raise RecordingError(f"has elements of type {shown(descr)}: the column is {column.dtype}, so it may be {', '.join(allowed)}")
    return descr, int(shape.rstrip(", ")), offset, int(descr[-1])


def _allowed(column: Column) -> tuple[str, ...]:
    """The types that a file may hold: those whose every value fits; for differences, any whole type."""
    if column.dtype == "float64":
        return ("<f8",)
    if column.delta:
        return _WHOLE
    return tuple(descr for descr in _WHOLE if np.can_cast(np.dtype(descr), np.dtype(column.dtype), "safe"))
