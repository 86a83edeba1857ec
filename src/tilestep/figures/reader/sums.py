"""Sums of columns that may come from anybody, in whole numbers of 64 bits."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.recording.schema import EVENT_KINDS
from tilestep.recording.tables import Tables
from tilestep.sim.trace import BESIDE

MOST_SUM: Final = 2**62
CyclesByIpu = Mapping[int, Mapping[str, int]]  # IPU -> kind of event -> cycles


class BusiestIpu(NamedTuple):
    """Cycles of the IPU that did most: kind of event -> cycles."""

    ipu: int
    by_kind: Mapping[str, int]

    @property
    def cycles(self) -> int:
        """All of them, but for those of I/O tiles beside the other tiles' work."""
        return sum(cycles for kind, cycles in self.by_kind.items() if kind not in BESIDE)


def cycles_by_ipu(tables: Tables, rows: NDArray[np.int64] | slice) -> CyclesByIpu:
    """The sum of some rows of table `sums`. Raises: RecordingError for a kind that no event has, or too many cycles."""
    by_ipu: dict[int, dict[str, int]] = {}
    columns: list[list[int]] = [tables.column("sums", name)[rows].tolist() for name in ("ipu", "kind", "cycles")]
    ipus, kinds, cycles = columns
    for ipu, kind, spent in zip(ipus, kinds, cycles, strict=True):
        if kind >= len(EVENT_KINDS) or not 0 <= spent <= MOST_SUM:
            raise RecordingError(f"table 'sums' has {spent:,} cycles of kind {kind}: there are {len(EVENT_KINDS)} kinds")
        of_ipu = by_ipu.setdefault(ipu, {})
        of_ipu[EVENT_KINDS[kind]] = of_ipu.get(EVENT_KINDS[kind], 0) + spent
    return by_ipu


def busiest_of(by_ipu: CyclesByIpu) -> BusiestIpu:
    """The IPU that did most, the first of equals; IPU 0 if none did anything."""
    return max((BusiestIpu(ipu, by_ipu[ipu]) for ipu in sorted(by_ipu)), key=lambda each: each.cycles, default=BusiestIpu(0, {}))


def require_sums(values: NDArray[Any], what: str) -> None:
    """Requires that no sum of some of these numbers passes 2**62. Args: what: the numbers are. Raises: RecordingError otherwise."""
    if float(np.abs(values.astype(np.float64)).sum()) > MOST_SUM:
        raise RecordingError(f"{what} of the recording add up to more than 2**62: they are damaged")
