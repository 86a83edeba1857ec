"""What all views need: the machine, the programs and the total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Final

from tilestep.figures.overview import files_of, overview
from tilestep.figures.reader import Report
from tilestep.machine.assemble import describe
from tilestep.views.page.block import Block
from tilestep.views.page.untrusted import text_in

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "head.total": "Emulated cycles from the recording's begin to its end, waits included.",
        "head.kinds": "Cycles of the busiest IPU in all runs together, also in those whose events were not kept.",
    }
)


def head(report: Report) -> Block:
    """The block `head`: always there.

    Its JSON: tilestep (version), parts, emulated (whether something ran), machine ('' without one), num_ipus, clock_hz, tile_sram_bytes,
    num_tiles, verdict (whether all of it fits, as a sentence; '' if unknown), emulated_cycles, busiest_ipu, cycles_by_kind, popart (whether
    PopART calls its lines), fields (of the machine, with unit, source and basis), programs (rows of `tilestep report show`, with row).
    """
    found = overview(report)
    programs = report.compilation.programs if "compilation" in report.parts else ()
    machine = report.target.machine if found.machine else None
    return Block(
        json={
            "tilestep": found.tilestep,
            "parts": list(found.parts),
            "emulated": "execution" in found.parts,
            "machine": found.machine,
            "num_ipus": found.num_ipus,
            "num_tiles": machine.ipu.num_tiles if machine else 0,
            "verdict": text_in(report.profile.get("verdict"), "text"),
            "clock_hz": found.clock_hz,
            "tile_sram_bytes": found.tile_sram_bytes,
            "emulated_cycles": found.emulated_cycles,
            "busiest_ipu": found.busiest_ipu,
            "cycles_by_kind": found.cycles_by_kind,
            "popart": any("/tilestep/popart/" in file for file in files_of(report)),
            "fields": [asdict(field) for field in describe(machine)] if machine else [],
            "programs": [{**asdict(row), "row": program.row} for row, program in zip(found.programs, programs, strict=True)],
        }
    )
