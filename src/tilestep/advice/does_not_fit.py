"""What to do about a program that did not fit, so that it never ran: how far it is from fitting, what fills it, what would free some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.jits import jit_of
from tilestep.advice.lines import line_of, line_of_call
from tilestep.advice.proposal import Proposal
from tilestep.advice.remedies import remedies
from tilestep.errors import TilestepError
from tilestep.figures.gradients import could_recompute
from tilestep.figures.quantities import bytes_text
from tilestep.figures.records import Figures
from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import fits
from tilestep.plan.steps import Program, leaves
from tilestep.recording.sources import Source

MOST_PLANNED: Final = 1_000_000  # characters of HLO that are planned again: some seconds
_LARGEST: Final = 4  # parts that are named
_PLANS: Final = 12  # of one program, about


def refused(figures: Figures, _evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs that did not fit, so that they never ran, those that miss most first."""
    left = MOST_PLANNED
    for unfit in sorted(figures.unfit, key=lambda unfit: -unfit.program.memory.peak_bytes):
        work = _PLANS * len(unfit.source.text()) if unfit.source else 0
        source = unfit.source if work <= left else None
        left -= work if source else 0
        try:
            finding = did_not_fit(unfit.program, source, unfit.machine)
        except TilestepError:
            finding = did_not_fit(unfit.program, None, unfit.machine)
        if finding is not None:
            yield Proposal(finding=finding)


def did_not_fit(program: Program, source: Source | None, machine: MachineSpec) -> Finding | None:
    """The finding about a program that did not fit; None if it fits.

    Args:
        program: as it was planned.
        source: what it was planned from; None: it is not to be planned again.
        machine: that it was planned for.
    """
    memory, tile = program.memory, machine.ipu.tile
    if fits(memory, tile):
        return None
    over, code_over = memory.peak_bytes - tile.sram_bytes, memory.instruction_bytes - tile.executable_bytes
    parts: list[str] = []
    if over > 0:
        parts.append(
            f"tile {memory.tile:,} needs {bytes_text(memory.peak_bytes)} in superstep '{memory.peak_step}' and has "
            f"{bytes_text(tile.sram_bytes)}: {over:,} B too many"
        )
    if code_over > 0:
        parts.append(f"its code is {bytes_text(memory.instruction_bytes)} a tile, which can execute {bytes_text(tile.executable_bytes)}")
    lines = {name: line_of(program, leaf.frame) for leaf in leaves(program.body) for name in (leaf.scope, f"temporaries of {leaf.name}")}
    named = [(name, size, lines.get(name)) for name, size in memory.largest[:_LARGEST]]
    values = [f"{name} {bytes_text(size)}{f' ({line})' if line else ''}" for name, size, line in named]
    text = f"{program.name} does not fit, so it never ran: {', and '.join(parts)}. Largest on that tile: {', '.join(values)}."
    scopes = {leaf.scope for leaf in leaves(program.body)}
    found = remedies(program, source, machine, could_recompute=could_recompute(scopes))
    line = jit_of(program).line or line_of_call(program)
    text, best = f"{text} {found.text}", found.best
    if best is None:
        return Finding(kind="memory", text=text, line=line, unknown=found.unknown, urgent=True)
    return Finding(kind="memory", text=text, edit=best.edit, line=best.line or line, gain=best.gain, urgent=True)
