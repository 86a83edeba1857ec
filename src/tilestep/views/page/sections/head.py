"""What all views need: the machine, the programs and the total."""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Final

from tilestep.figures.reader import Report
from tilestep.figures.rows import files_of, program_row
from tilestep.machine.assemble import describe
from tilestep.views.page.block import PageBlock
from tilestep.views.page.untrusted import text_in

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "head.total": "Emulated cycles from the recording's begin to its end, waits included.",
        "head.kinds": "Cycles of the busiest IPU in all runs together, also in those whose events were not kept.",
    }
)


def head(report: Report) -> PageBlock:
    """The block `head`: always there.

    Its JSON: emulated (whether something ran), machine ('' without one), num_ipus, clock_hz, verdict (whether all of it fits, as a
    sentence; '' if unknown), emulated_cycles, busiest_ipu, cycles_by_kind, popart (whether PopART calls its lines), fields (of the machine,
    with unit, source and basis), programs (rows of `tilestep report show --json`).
    """
    machine = report.target.machine if "compilation" in report.parts else None
    total = report.execution.total_cycles if "execution" in report.parts else None
    return PageBlock(
        json={
            "emulated": total is not None,
            "machine": machine.name if machine else "",
            "num_ipus": machine.num_ipus if machine else 0,
            "verdict": text_in(report.profile.get("verdict"), "text"),
            "clock_hz": machine.ipu.clock_hz if machine else 0.0,
            "emulated_cycles": total.total if total else 0,
            "busiest_ipu": total.busiest_ipu if total else 0,
            "cycles_by_kind": total.by_kind if total else {},
            "popart": any("/tilestep/popart/" in file for file in files_of(report)),
            "fields": [asdict(field) for field in describe(machine)] if machine else [],
            "programs": [program_row(program) for program in report.programs],
        }
    )
