"""What JAX is told of an exception."""

from __future__ import annotations

import pytest

from tilestep.errors import SettingsError, TileMemoryError
from tilestep.pjrt.table import capi
from tilestep.pjrt.table.status import describe


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RuntimeError("NOT_FOUND: no such handler"), "NOT_FOUND", "no such handler"),
        (RuntimeError("something: else"), "INTERNAL", "RuntimeError: something: else"),
        (ValueError("bad"), "INVALID_ARGUMENT", "ValueError: bad"),
        (SettingsError("jax_ipu_x is 3"), "INVALID_ARGUMENT", "SettingsError: jax_ipu_x is 3"),
        (NotImplementedError("f is not implemented"), "UNIMPLEMENTED", "f is not implemented"),
        (MemoryError("no room"), "RESOURCE_EXHAUSTED", "MemoryError: no room"),
        (KeyboardInterrupt(), "CANCELLED", "KeyboardInterrupt: "),
    ],
)
def test_code_and_message(error: BaseException, code: str, message: str) -> None:
    assert describe(error) == (getattr(capi, f"PJRT_Error_Code_{code}"), message.encode())


def test_tile_memory_is_a_resource_that_ran_out() -> None:
    error = TileMemoryError(tile=17, superstep="dot.3", needed_bytes=655_360, available_bytes=638_976, largest=[("weights", 393_216)])
    code, message = describe(error)
    assert code == capi.PJRT_Error_Code_RESOURCE_EXHAUSTED
    assert b"TileMemoryError: tile 17 needs 655,360 B in superstep 'dot.3'" in message
