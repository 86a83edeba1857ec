"""Advice on values in pinned_host that would fit into the tiles."""

from __future__ import annotations

from collections.abc import Iterator

from tilestep.record.edits.programs import in_tiles
from tilestep.record.edits.script import with_changed
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding
from tilestep.report.advice.lines import line_of_call
from tilestep.report.advice.memory import NEARLY_FULL
from tilestep.report.advice.phrases import one_or
from tilestep.report.advice.proposal import Proposal, Way
from tilestep.report.figures import Figures
from tilestep.report.quantities import bytes_text, names_text, share_text
from tilestep.units import ceil_div


def offload(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs whose tiles have room for what they keep in pinned_host, or hand on to it."""
    if evidence is None:
        return
    tile_bytes, num_tiles = figures.machine.tile_sram_bytes, figures.machine.num_tiles
    for profile in figures.programs:
        program = evidence.programs.get(profile.key)
        away = [argument for argument in program.arguments if argument.on_host] if program else []
        if program is None or not profile.runs or not away:
            continue
        whole = profile.peak_tile_bytes + ceil_div(sum(argument.size_bytes for argument in away), num_tiles - program.num_io_tiles)
        if whole > NEARLY_FULL * tile_bytes:
            continue
        label = figures.label(profile.key)
        names = names_text([argument.name for argument in sorted(away, key=lambda argument: -argument.size_bytes)], most=3)
        size = bytes_text(sum(argument.size_bytes for argument in away))
        it, stays = one_or(away, "it", "them"), one_or(away, "stays", "stay")
        text = (
            f"{label} keeps {names} ({size}) in pinned_host, though its fullest tile would be {share_text(whole, tile_bytes)} full with "
            f"{it}: give {it} to the IPU and donate {it}, and {one_or(away, 'it', 'they')} {stays} there."
        )
        yield Proposal(
            finding=Finding(kind="offload", text=text, line=line_of_call(program)),
            ways=(
                Way(
                    edit=f"keep {names} on the IPU",
                    change=with_changed([profile.key], in_tiles),
                    how="about",
                    basis="without the transfers to pinned_host and back",
                ),
            ),
            only_with_gain=True,
        )
