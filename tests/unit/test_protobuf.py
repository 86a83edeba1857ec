"""The few lines that read and write protocol buffers, against bytes made by hand from the format's definition."""

import numpy as np
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


VALUES = [0, 1, 127, 128, 300, 2**14 - 1, 2**14, 2**35, 2**63 - 1]


def test_columns_are_what_the_messages_are_one_by_one() -> None:
    columns = protobuf.int_fields(200, np.array(VALUES))
    assert columns.join() == b"".join(protobuf.int_field(200, value) for value in VALUES)
    nested = protobuf.message_fields(3, protobuf.stacked(columns, protobuf.int_fields(1, np.array(VALUES[::-1]))))
    assert nested.join() == b"".join(
        protobuf.bytes_field(3, protobuf.int_field(200, a) + protobuf.int_field(1, b)) for a, b in zip(VALUES, VALUES[::-1], strict=True)
    )


def test_a_message_around_a_long_one_has_its_length_in_two_bytes() -> None:
    part = protobuf.int_fields(1, np.array([2**63 - 1, 0]))
    long = protobuf.stacked(*[part] * 20)
    assert [len(value) for _, value in protobuf.fields(protobuf.message_fields(2, long).join()) if isinstance(value, bytes)] == [200, 40]


def test_a_column_may_be_absent_from_some_messages() -> None:
    column = protobuf.int_fields(1, np.array([5, 6, 7])).only(np.array([True, False, True]))
    assert list(protobuf.fields(column.join())) == [(1, 5), (1, 7)]
    assert protobuf.message_fields(2, column).join() == bytes([0x12, 2, 8, 5, 0x12, 0, 0x12, 2, 8, 7])


def test_columns_of_no_messages_are_empty() -> None:
    assert protobuf.message_fields(1, protobuf.int_fields(1, np.zeros(0, np.int64))).join() == b""
