"""Advice on values that are saved at a switch: an IPU keeps one program, and the next one's loads throw its values out."""

from __future__ import annotations

from collections.abc import Iterator

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding
from tilestep.advice.phrases import AS_ONE
from tilestep.advice.proposal import Proposal, Way
from tilestep.figures.quantities import bytes_text, count_text
from tilestep.figures.records import Figures
from tilestep.recording.edits.moved import merged


def save(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The program for whose runs most bytes of another were saved, if that and to bring them back takes a hundredth of the time."""
    savers = [p for p in figures.programs if p.host_bytes_saved and p.origin == "user"]
    keepers = [p for p in figures.programs if p.host_bytes_restored and p.origin == "user"]
    if evidence is None or not savers or not keepers:
        return
    saver, keeper = (max(found, key=lambda p: p.host_bytes_saved + p.host_bytes_restored) for found in (savers, keepers))
    moved = saver.host_bytes_saved + keeper.host_bytes_restored
    cycles = evidence.machine.host_cycles(to_host=saver.host_bytes_saved, to_ipus=keeper.host_bytes_restored)
    if saver.key == keeper.key or cycles < LEAST_SHARE * figures.emulated_cycles:
        return
    names = figures.label(keeper.key), figures.label(saver.key)
    finding = Finding(
        kind="save",
        text=f"{names[0]} and {names[1]} evict each other, so that {bytes_text(moved)} of values in the IPU's memory went to the host and "
        f"back at {count_text(saver.loads, 'switch') if saver.loads == 1 else f'{saver.loads:,} switches'}: work {names[1]} out in the "
        f"function of {names[0]}, or less often.",
        line=evidence.line_of_call(saver.key),
    )
    ways = (
        Way(
            edit=f"put {names[0]} and {names[1]} into one jitted function",
            change=merged([keeper.key, saver.key]),
            how="about",
            basis=AS_ONE,
        ),
    )
    yield Proposal(finding=finding, ways=ways)
