"""The part of protocol buffers that messages of XLA and of profilers need: reads fields, and encodes them."""

from __future__ import annotations

from collections.abc import Iterator


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
