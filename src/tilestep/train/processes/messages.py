"""Messages between processes: bytes that carry data and nothing else.

A value is None, a bool, an int, a float, a str, bytes, or a tuple, a list or a dict of values. Its first byte is its type. The type says
which bytes follow:

    N T F   None, True, False: nothing
    f       a float: 8 bytes, IEEE 754
    i       an int: a length, and so many bytes of two's complement
    s b     a str in UTF-8, bytes: a length, and so many bytes
    t l d   a tuple, a list, a dict: a count, and so many values; of a dict so many pairs of a key and a value

Lengths and counts are 4 bytes. All numbers begin with their highest byte. The reader makes values of these types, and calls nothing else.
So a bad message has one effect: an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from tilestep.messages import shown
from tilestep.train.untyped import Pytree

LONGEST_BYTES: Final = 1 << 24  # of one process's message: a tree of some 100,000 arrays has room
DEEPEST: Final = 100  # values in values: the reader takes three of Python's 1,000 frames for each

_SIZE: Final = struct.Struct(">I")
_FLOAT: Final = struct.Struct(">d")
_CONSTANTS: Final = {None: b"N", True: b"T", False: b"F"}
_CONSTANT_OF: Final = {tag: value for value, tag in _CONSTANTS.items()}


def encode(value: Any, *, longest_bytes: int = LONGEST_BYTES) -> bytes:
    """The message that carries a value.

    Raises: TypeError for a value of another type, a subclass too, because it would arrive as something else. ValueError for a value that
        is too deep, or whose message is longer than `longest_bytes`.
    """
    parts: list[bytes] = []
    _write(value, parts, 0)
    _require_short(sum(map(len, parts)), longest_bytes)
    return b"".join(parts)


def decode(message: bytes) -> Any:
    """The value of a message.

    Raises: ValueError for bytes that are no message. Its text is bounded, because another process has sent the bytes.
    """
    reader = _Reader(message)
    value = reader.value(0)
    if reader.left:
        raise ValueError(f"no message: {reader.left:,} of {len(message):,} bytes are left over")
    return value


def _write(value: Any, parts: list[bytes], depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(
            f"a message to the other processes is more than {DEEPEST} values deep: put fewer tuples, lists or dicts in each other"
        )
    kind = type(value)
    if kind is bool or value is None:
        parts.append(_CONSTANTS[value])
    elif kind is float:
        parts.append(b"f" + _FLOAT.pack(value))
    elif kind is int:
        parts += _sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, signed=True))
    elif kind is str:
        parts += _sized(b"s", value.encode("utf-8", "surrogatepass"))
    elif kind is bytes:
        parts += _sized(b"b", value)
    elif kind is tuple:
        _write_all(b"t", len(value), value, parts, depth)
    elif kind is list:
        _write_all(b"l", len(value), value, parts, depth)
    elif kind is dict:
        _write_all(b"d", len(value), (each for item in value.items() for each in item), parts, depth)
    else:
        raise TypeError(
            f"{shown(value)} of type {kind.__module__}.{kind.__qualname__} cannot be sent to the other processes: only None, bool, int, "
            "float, str, bytes, and tuples, lists and dicts of these can"
        )


def _write_all(tag: bytes, count: int, values: Iterable[Pytree], parts: list[bytes], depth: int) -> None:
    parts.append(tag + _SIZE.pack(count))
    for each in values:
        _write(each, parts, depth + 1)


def _sized(tag: bytes, data: bytes) -> Sequence[bytes]:
    _require_short(len(data), LONGEST_BYTES)
    return tag + _SIZE.pack(len(data)), data


def _require_short(size_bytes: int, longest_bytes: int) -> None:
    if size_bytes > longest_bytes:
        raise ValueError(
            f"a message to the other processes has {size_bytes:,} bytes: at most {longest_bytes:,} can be sent at once; send fewer or "
            "smaller values"
        )


@final
class _Reader:
    """Reads a message from its beginning to its end."""

    def __init__(self, message: bytes) -> None:
        self._message, self._offset = message, 0

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._message) - self._offset

    def value(self, depth: int) -> Any:
        """The next value. Raises: ValueError if there is none."""
        if depth > DEEPEST:
            raise ValueError(f"no message: more than {DEEPEST} values deep")
        start, tag = self._offset, self._bytes(1)
        if tag in _CONSTANT_OF:
            return _CONSTANT_OF[tag]
        if tag == b"f":
            return _FLOAT.unpack(self._bytes(_FLOAT.size))[0]
        if tag == b"i":
            return int.from_bytes(self._bytes(self._size()), signed=True)
        if tag == b"s":
            return self._text(start)
        if tag == b"b":
            return self._bytes(self._size())
        if tag == b"t":
            return tuple(self._values(self._size(), depth))
        if tag == b"l":
            return self._values(self._size(), depth)
        if tag == b"d":
            return self._dict(self._size(), depth)
        raise ValueError(f"no message: byte {start:,} is {tag!r}, which is no type")

    def _text(self, start: int) -> str:
        try:
            return self._bytes(self._size()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise ValueError(f"no message: the str at byte {start:,} is no UTF-8 ({error.reason})") from None

    def _values(self, count: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(count)]  # it ends at the end of the message: each value has a byte

    def _dict(self, count: int, depth: int) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for _ in range(count):
            key, value = self.value(depth + 1), self.value(depth + 1)
            try:
                entries[key] = value
            except TypeError as error:  # a list or a dict, perhaps in a tuple
                raise ValueError(f"no message: a dict's key: {error}") from error
        if len(entries) < count:
            raise ValueError("no message: a dict has a key twice")
        return entries

    def _size(self) -> int:
        return _SIZE.unpack(self._bytes(_SIZE.size))[0]

    def _bytes(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError(f"no message: {count:,} bytes should follow byte {self._offset:,}, and {self.left:,} do")
        data = self._message[self._offset : self._offset + count]
        self._offset += count
        return data
