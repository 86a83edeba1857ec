"""The part of protocol buffers that messages of XLA and of profilers need: reads fields, and encodes them.

What is encoded a million times is encoded as columns: one field of many messages at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of each field, in order: an int for a varint, else the raw bytes.

    Raises: ValueError if the message is no protocol buffer.
    """
    position, end = 0, len(message)
    while position < end:
        key, position = _read(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _read(message, position)
            yield number, value
            continue
        if wire_type == 2:
            size, position = _read(message, position)
        elif wire_type == 1:
            size = 8
        elif wire_type == 5:
            size = 4
        else:
            raise ValueError(f"wire type {wire_type} at byte {position} is none of 0, 1, 2 and 5")
        if position + size > end:
            raise ValueError(f"field {number} needs {size} bytes at byte {position}, but the message ends at {end}")
        yield number, message[position : position + size]
        position += size


def ints(value: int | bytes) -> list[int]:
    """The values of a repeated integer field: one, or several packed together."""
    if isinstance(value, int):
        return [value]
    out: list[int] = []
    position = 0
    while position < len(value):
        number, position = _read(value, position)
        out.append(number)
    return out


def bytes_field(number: int, value: bytes) -> bytes:
    """An encoded field that holds bytes, a string or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def int_field(number: int, value: int) -> bytes:
    """An encoded field that holds a non-negative integer."""
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    """A non-negative integer as the format writes all of them: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


@final
@dataclass(frozen=True, kw_only=True)
class Columns:
    """Parts of many messages.

    Attributes:
        content: [messages, bytes at most] uint8.
        used: [messages, bytes at most] which of them a message has.
    """

    content: NDArray[np.uint8]
    used: NDArray[np.bool_]

    def only(self, messages: NDArray[np.bool_]) -> Columns:
        """The same for these messages, and nothing for others."""
        return Columns(content=self.content, used=self.used & messages[:, None])

    def join(self) -> bytes:
        """All messages, one after the other."""
        return self.content[self.used].tobytes()


def int_fields(number: int, values: NDArray[np.int64]) -> Columns:
    """The field of each message that holds one of these non-negative integers."""
    return stacked(_constant(varint(number << 3), len(values)), _varints(values))


def message_fields(number: int, messages: Columns) -> Columns:
    """A field of each message around it that holds one of these messages."""
    sizes = messages.used.sum(axis=1, dtype=np.int64)
    return stacked(_constant(varint(number << 3 | 2), len(sizes)), _varints(sizes), messages)


def stacked(*parts: Columns) -> Columns:
    """The parts of each message, one after the other."""
    return Columns(content=np.hstack([part.content for part in parts]), used=np.hstack([part.used for part in parts]))


def _constant(content: bytes, count: int) -> Columns:
    row = np.frombuffer(content, np.uint8)
    return Columns(content=np.tile(row, (count, 1)), used=np.ones((count, len(row)), np.bool_))


def _varints(values: NDArray[np.int64]) -> Columns:
    longest = len(varint(int(values.max(initial=0))))
    rest = values.astype(np.uint64)[:, None] >> np.arange(0, 7 * longest, 7, dtype=np.uint64)
    used = rest != 0
    used[:, 0] = True
    more = np.zeros_like(used)
    more[:, :-1] = used[:, 1:]
    return Columns(content=(rest & 127 | more * np.uint64(128)).astype(np.uint8), used=used)


def _read(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(message):
            raise ValueError("the message ends inside a number")
        byte = message[position]
        position += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, position
