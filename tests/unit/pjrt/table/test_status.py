"""What JAX is told of an exception."""

import pytest

from tilestep.errors import TileMemoryError
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.entry_points import answers
from tilestep.pjrt.table.status import describe


def test_names_in_an_error_move_no_cursor() -> None:
    error = TileMemoryError(tile=0, superstep="a\x1b[7m", needed_bytes=9, available_bytes=8, largest=[("b\u202e", 9)])
    code, message = describe(error)
    assert code == capi.PJRT_Error_Code_RESOURCE_EXHAUSTED
    first, second, *_ = message.decode().split("\n")
    assert first == "TileMemoryError: tile 0 needs 9 B in superstep 'a\\x1b[7m' but has 8 B (1 B over)"
    assert second == "  largest: b\\u202e 9 B"
    assert error.largest == (("b\u202e", 9),)


def test_an_answer_names_results_of_its_entry_point() -> None:
    with pytest.raises(ValueError, match="PJRT_Client_ProcessIndex has no result platform: it has process_index"):
        answers("PJRT_Client_ProcessIndex", "platform", lambda _: 0)
    with pytest.raises(ValueError, match="has no result client"):  # the object that is asked is no result
        answers("PJRT_Client_ProcessIndex", "client", lambda _: 0)
