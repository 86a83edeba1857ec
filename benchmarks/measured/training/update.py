"""One update of a training run, as tilestep sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilestep.figures.intervals import shares
from tilestep.figures.records import ProgramProfile


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The fullest tile of one program.

    Attributes:
        program: its name.
        tile_bytes: on the tile.
        largest: (name, bytes) of values and other parts there, the largest first.
    """

    program: str
    tile_bytes: int
    largest: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update in steady state.

    Attributes:
        seconds: from one update to the next.
        sram_bytes: of a tile.
        peaks: of the programs, the fullest first.
        shares: of the time, by kind of work.
    """

    seconds: float
    sram_bytes: int
    peaks: tuple[Peak, ...]
    shares: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def fullness(self) -> float:
        """Of the fullest tile: 1 is full."""
        return self.peaks[0].tile_bytes / self.sram_bytes

    @property
    def fits(self) -> bool:
        """Whether the fullest tile holds it."""
        return self.fullness <= 1


def peaks_of(programs: object) -> tuple[Peak, ...]:
    """Peaks of a profile's programs, the fullest first."""
    found = [
        Peak(program=each.name, tile_bytes=each.peak_tile_bytes, largest=(*each.largest_tile_bytes, *each.alive_tile_bytes[:10]))
        for each in programs  # type: ignore[attr-defined]
    ]
    return tuple(sorted(found, key=lambda peak: -peak.tile_bytes))


def shares_of(programs: Sequence[tuple[ProgramProfile, float]], call: float) -> dict[str, float]:
    """Of an update's time, by kind of work. Args: programs: with how often each counts. call: the part that calls from the host take."""
    found = {kind: share * (1 - call) for kind, share in shares(programs).items()}
    return {**found, "call": call}
