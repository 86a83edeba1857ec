"""The few lines that read and write protocol buffers, against bytes made by hand from the format's definition."""

from __future__ import annotations

import pytest

from tilestep import protobuf


def test_fields_are_read_in_order_with_numbers_and_bytes() -> None:
    message = bytes([0x08, 0x96, 0x01]) + bytes([0x12, 0x02]) + b"hi" + bytes([0x1D, 1, 2, 3, 4])
    assert list(protobuf.fields(message)) == [(1, 150), (2, b"hi"), (3, bytes([1, 2, 3, 4]))]


def test_what_is_written_can_be_read() -> None:
    message = protobuf.int_field(7, 300) + protobuf.bytes_field(200, b"x" * 200)
    assert list(protobuf.fields(message)) == [(7, 300), (200, b"x" * 200)]


def test_repeated_numbers_come_one_by_one_or_packed() -> None:
    assert protobuf.ints(5) == [5]
    assert protobuf.ints(bytes([1, 0xAC, 0x02, 3])) == [1, 300, 3]


@pytest.mark.parametrize(
    ("message", "says"), [(b"\x08", "ends inside a number"), (b"\x12\x05ab", "needs 5 bytes"), (b"\x0b", "wire type 3")]
)
def test_a_broken_message_says_where(message: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(protobuf.fields(message))
