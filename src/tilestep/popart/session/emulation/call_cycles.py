"""What calls of a session took, by the kinds of cycles."""

from __future__ import annotations

from typing import Final

from tilestep.popart.exceptions import popart_runtime_error
from tilestep.sim.mark import ByIpu

OUTSIDE: Final = ("load", "save", "read", "io-in", "io-out")  # kinds of cycles that are no part of a run's own time
_HOST: Final = (*OUTSIDE, "stream-in", "stream-out", "host-call")


def inner_cycles(spent: ByIpu, ipu: int) -> int:
    """Cycles of an IPU's steps, without transfers to and from the host; 0 if it took no part."""
    return sum(cycles for kind, cycles in spent.get(ipu, {}).items() if kind not in _HOST)


def no_run() -> popart_runtime_error:
    """The exception of a session that was not called."""
    return popart_runtime_error("Must call run before getCycleCount.")
