"""What calls of a session took, by the kinds of cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tilestep.popart.exceptions import popart_runtime_error
from tilestep.sim import EventKind, Mark

OUTSIDE: Final = ("load", "save", "read", "io-in", "io-out")  # kinds of cycles that are no part of a run's own time
_HOST: Final = (*OUTSIDE, "stream-in", "stream-out", "host-call")

ByIpu = Mapping[int, Mapping[EventKind, int]]  # IPU -> kind -> cycles


def cycles_between(before: Mark, after: Mark, keys: Iterable[int] | None = None) -> ByIpu:
    """The cycles of programs between two marks. Args: keys: of the programs, each of which ran; None: all."""
    total: dict[int, dict[EventKind, int]] = {}
    for key in after.programs if keys is None else keys:
        for ipu, kinds in after.programs[key].since(before.programs.get(key)).cycles.items():
            row = total.setdefault(ipu, {})
            for kind, cycles in kinds.items():
                row[kind] = row.get(kind, 0) + cycles
    return total


def inner_cycles(spent: ByIpu, ipu: int) -> int:
    """Cycles of an IPU's steps, without transfers to and from the host; 0 if it took no part."""
    return sum(cycles for kind, cycles in spent.get(ipu, {}).items() if kind not in _HOST)


def no_run() -> popart_runtime_error:
    """The exception of a session that was not called."""
    return popart_runtime_error("Must call run before getCycleCount.")
