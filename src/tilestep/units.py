"""Units that the emulator counts in: whole bytes, and whole cycles of the IPU's clock."""

import math
from typing import NewType

Bytes = NewType("Bytes", int)
Cycles = NewType("Cycles", int)


def ceil_div(numerator: int, denominator: int) -> int:
    """Quotient of two whole numbers, rounded up."""
    return -(-numerator // denominator)


def cycles_from_seconds(seconds: float, clock_hz: float) -> Cycles:
    """Whole cycles that `seconds` take at `clock_hz`, rounded up (the one place where seconds become cycles)."""
    return Cycles(math.ceil(round(seconds * clock_hz, 6)))


def cycles_from_bytes(size_bytes: int, bytes_per_second: float, clock_hz: float) -> Cycles:
    """Whole cycles that `size_bytes` take over a channel of `bytes_per_second`, rounded up; 0 for 0 bytes."""
    return cycles_from_seconds(size_bytes / bytes_per_second, clock_hz)


def seconds_from_cycles(cycles: int, clock_hz: float) -> float:
    """Seconds of emulated time; for reports only."""
    return cycles / clock_hz
