"""What view Compare reads."""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

from tilestep.figures.comparison import ProgramChange, StepChange, compare
from tilestep.figures.reader import Report
from tilestep.views.page.block import PageBlock

MOST_STEPS: Final = 5_000  # rows of a page
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "comparison.cycles": "Emulated cycles repeat exactly, so a difference has its reason in the program or in the machine.",
        "comparison.run": "Mean of all runs on the program's slowest IPU: arguments, steps, waits and results, without loads.",
        "comparison.loads": "Cycles of all loads on the program's slowest IPU.",
        "comparison.bytes": "Bytes on the fullest tile, at the step at which it is fullest, as the program was planned.",
        "comparison.flops": "Floating-point operations of one run on one IPU, with each data-dependent loop taken once.",
        "comparison.runs": "How often the program ran.",
        "comparison.step": "Cycles of the step in all runs by their number, on the slowest of the program's IPUs.",
    }
)


def comparison(a: Report, b: Report) -> PageBlock | None:
    """The block `comparison` of two recordings; None if one has no programs.

    Its JSON: whole (a, b: cycles), machines ([field, value in A, value in B] that
    differ), changes (of programs: label, matched, alone ('A', 'B' or ''), runs, cycles, cycles_per_run, load_cycles, peak_tile_bytes,
    flops_per_run, each {a, b}), steps (program, line, scope, family, cycles_per_run and executions_per_run, each {a, b}), left_out (steps).

    Times are in cycles, which the page turns into seconds by the clock of each recording.

    Raises: RecordingError if a recording is damaged.
    """
    if "compilation" not in a.parts or "compilation" not in b.parts:
        return None
    found = compare(a, b)
    return PageBlock(
        json={
            "whole": asdict(found.emulated_cycles),
            "machines": [list(row) for row in found.machines],
            "names": list(found.names),
            "changes": [_change(program) for program in found.programs],
            "steps": [_step(step) for step in found.steps[:MOST_STEPS]],
            "left_out": max(0, len(found.steps) - MOST_STEPS),
        }
    )


def _step(step: StepChange) -> dict[str, Any]:
    document = asdict(step)
    del document["emulated_s_per_run"]
    return document


def _change(program: ProgramChange) -> dict[str, Any]:
    document = asdict(program)
    for name in ("name", "keys", "emulated_s", "emulated_s_per_run", "load_emulated_s"):
        del document[name]
    return {**document, "alone": "" if program.matched else "A" if program.keys[1] is None else "B"}
