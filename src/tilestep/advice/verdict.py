"""The verdict on a profile, which every summary says first: whether all of it fits into the machine, and which tile is the fullest."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilestep.advice.phrases import group_text
from tilestep.figures.quantities import bytes_text, count_text, share_text
from tilestep.figures.records import Figures, Need, ProgramProfile


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether all that ran, or was to run, fits.

    Attributes:
        fits: whether it does, as predicted.
        likely: whether the interval of what the fullest tile needs has a full tile in it, so that nobody is sure.
        need: of the fullest tile; of what does not fit, the need that is farthest above what there is.
        others: how many more programs and groups do not fit.
    """

    fits: bool
    likely: bool
    need: Need
    others: int = 0

    @property
    def word(self) -> str:
        """'fits', 'likely fits', 'likely does not fit' or 'does not fit'."""
        return f"{'likely ' if self.likely else ''}{'fits' if self.fits else 'does not fit'}"

    @property
    def tile_word(self) -> str:
        """The word, if it is about a tile's memory; '' if about another memory, which has no interval."""
        return self.word if self.need.of_tile else ""

    @property
    def text(self) -> str:
        """'fits: jit_step, the fullest, needs 507 KiB of the 624 KiB of tile 5 of IPU 0 (81 %, 117 KiB left)'."""
        need = self.need
        share = share_text(need.needed_bytes, need.available_bytes)
        amount = f"needs {bytes_text(need.needed_bytes)} of the {bytes_text(need.available_bytes)} of {need.where} ({share}"
        if need.over_bytes <= 0:
            return f"{self.word}: {need.what}, the fullest, {amount}, {bytes_text(-need.over_bytes)} left)"
        ran = "" if need.ran else ", so it never ran"
        more = f"; nor {'does' if self.others == 1 else 'do'} {count_text(self.others, 'other')}" if self.others else ""
        return f"{self.word}: {need.what} {amount}, {need.over_bytes:,} B too many){ran}{more}"

    def as_document(self) -> dict[str, Any]:
        """It in the profile's JSON document."""
        need = self.need
        return {
            "word": self.word,
            "text": self.text,
            "fits": self.fits,
            "what": need.what,
            "where": need.where,
            "needed_bytes": need.needed_bytes,
            "available_bytes": need.available_bytes,
            "ran": need.ran,
            "others": self.others,
        }


def verdict(figures: Figures) -> Verdict | None:
    """The verdict on a profile; None if nothing ran, and nothing was refused."""
    needs = [*figures.refused, *_needs(figures)]
    over = sorted((need for need in needs if need.over_bytes > 0), key=lambda need: -need.needed_bytes / need.available_bytes)
    sure = figures.interval is None or not figures.interval.low_tile <= 1 < figures.interval.high_tile
    if over:
        others = len({need.what for need in over} - {over[0].what})
        return Verdict(fits=False, likely=not sure and over[0].of_tile, need=over[0], others=others)
    fullest = max((need for need in needs if need.of_tile), key=lambda need: need.needed_bytes, default=None)
    return None if fullest is None else Verdict(fits=True, likely=not sure, need=fullest)


def _needs(figures: Figures) -> Iterator[Need]:
    machine = figures.machine
    for program in (program for program in figures.programs if program.runs):
        what, on = figures.label(program.key), f"IPU {program.ipu}"
        tile = f"tile {program.peak_tile:,} of {on}"
        yield Need(what=what, where=tile, needed_bytes=program.peak_tile_bytes, available_bytes=machine.tile_sram_bytes)
        code = f"each tile of {on} for code"
        yield Need(what=what, where=code, needed_bytes=_code(program), available_bytes=machine.tile_executable_bytes, of_tile=False)
        if machine.streaming_memory_bytes:
            needed, has = program.streaming_memory_bytes, machine.streaming_memory_bytes
            yield Need(what=what, where="an IPU-Machine for pinned_host", needed_bytes=needed, available_bytes=has, of_tile=False)
    for group in figures.groups:
        where, what = f"a tile of IPU {group.ipu}", group_text(group.name)
        yield Need(what=what, where=where, needed_bytes=group.peak_tile_bytes, available_bytes=machine.tile_sram_bytes)


def _code(program: ProgramProfile) -> int:
    return sum(size for kind, size in program.tile_bytes_by_kind if kind.endswith("code"))
