"""Bounds of a file before it is parsed: a few bytes of it may become many in memory, because an empty message takes a hundred."""

import functools
from collections.abc import Mapping
from typing import Any, Final

import onnx

from tilestep.onnx.errors import UnsafeModelError

MOST_FILE_BYTES: Final = 2 << 30  # protobuf's own bound of a message
MOST_PARSED_BYTES: Final = 3 << 29  # weights count apart; the size is estimated from that in the file
MOST_MESSAGES: Final = 1 << 21
_PER_BYTE: Final = 105  # the most that a byte of messages becomes
_PER_MESSAGE: Final = 210
_PER_TEXT: Final = 24
_PER_PLAIN_BYTE: Final = 8  # a number takes a byte or more in the file, and 8 in memory
_FIRST_SMALL, _SMALL = 4096, 32  # bytes of messages that are not looked into at first, and at all
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # types of fields on the wire
_TEXTS: Final = frozenset({"raw_data", "float_data", "double_data"})  # as long in memory as in the file


class _CorruptError(Exception):
    """The bytes are no protobuf; the parser will say how."""


def require_parseable(data: bytes) -> None:
    """Raises: UnsafeModelError for a file that would take too much memory when it is parsed."""
    if len(data) > MOST_FILE_BYTES:
        raise UnsafeModelError(
            f"the model has {len(data):,} B, and at most {MOST_FILE_BYTES:,} B are allowed: keep its weights in files beside it"
        )
    if len(data) * _PER_BYTE <= MOST_PARSED_BYTES or _parsed_bytes(data, small=_FIRST_SMALL) <= MOST_PARSED_BYTES:
        return
    if _parsed_bytes(data, small=_SMALL) > MOST_PARSED_BYTES:
        raise UnsafeModelError(
            f"the model would take more than {MOST_PARSED_BYTES:,} B of memory beside its weights, or it has more than "
            f"{MOST_MESSAGES:,} messages"
        )


def _parsed_bytes(data: bytes, *, small: int) -> int:
    """The most memory that a ModelProto takes beside its weights; 0 for bytes that are none. It stops beyond `MOST_PARSED_BYTES`.

    Args: small: messages of fewer bytes are not looked into; the worst is assumed of them.
    """
    total = messages = 0
    waiting: list[tuple[str, int, int]] = [("onnx.ModelProto", 0, len(data))]
    while waiting and total <= MOST_PARSED_BYTES:
        kind, position, end = waiting.pop()
        fields = _fields(kind)
        total += _PER_MESSAGE
        try:
            while position < end and total <= MOST_PARSED_BYTES:
                if messages > MOST_MESSAGES:
                    return MOST_PARSED_BYTES + 1
                start = position
                key, position = _varint(data, position)
                if key & 7 != _BYTES:
                    position = _after(data, position, key & 7)
                    total += (position - start) * _PER_PLAIN_BYTE
                    continue
                size, position = _varint(data, position)
                inner = fields.get(key >> 3, 0)
                messages += not isinstance(inner, int)
                if isinstance(inner, int):
                    total += inner * size + _PER_TEXT
                elif size < small:
                    total += size * _PER_BYTE + _PER_MESSAGE
                else:
                    waiting.append((inner, position, min(position + size, end)))
                position += size
        except _CorruptError:
            return 0
    return total


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """(a number, the position after it)."""
    value = shift = 0
    while shift < 64 and position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _CorruptError


def _after(data: bytes, position: int, wire: int) -> int:
    """The position after a field that is one number."""
    if wire == _VARINT:
        return _varint(data, position)[1]
    if wire in (_FIXED64, _FIXED32):
        return position + (8 if wire == _FIXED64 else 4)
    raise _CorruptError


@functools.cache
def _fields(kind: str) -> Mapping[int, str | int]:
    """By number: the kind of messages that a field of `kind` has, or how many bytes one of its bytes becomes."""
    return {field.number: _becomes(field) for field in _kinds()[kind].fields}


def _becomes(field: Any) -> str | int:
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.name in _TEXTS:
        return 0  # weights, which are counted apart
    return 1 if field.type in (field.TYPE_STRING, field.TYPE_BYTES) else _PER_PLAIN_BYTE


@functools.cache
def _kinds() -> Mapping[str, Any]:
    """Descriptors of all messages that a model may have, by name."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [onnx.ModelProto.DESCRIPTOR]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.full_name not in found:
            found[descriptor.full_name] = descriptor
            waiting += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return found
