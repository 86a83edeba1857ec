"""What to do about a program that did not fit, so that it never ran: how far it is from fitting, what fills it, what would free some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from tilestep.advice.finding import Finding, Line
from tilestep.advice.jits import jit_of
from tilestep.advice.lines import line_of_call
from tilestep.advice.remedies import remedies
from tilestep.errors import RecordingError, TilestepError
from tilestep.figures.gradients import could_recompute
from tilestep.figures.quantities import bytes_text
from tilestep.figures.reader import CompiledProgram, Report
from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import fits
from tilestep.plan.steps import Program, leaves
from tilestep.recording.sources import Source, hlo_of, options_of
from tilestep.recording.tables import json_text

MOST_PLANNED: Final = 1_000_000  # characters of HLO that are planned again: some seconds
_LARGEST: Final = 4  # parts that are named
_MOST: Final = 20  # programs of a recording
_PLANS: Final = 12  # of one program, about
Named = tuple[str, int, Line | None]  # a value, its bytes on the fullest tile, and its line


def did_not_fit(
    program: Program,
    source: Source | None,
    machine: MachineSpec,
    *,
    largest: Sequence[Named] = (),
    text_of: Callable[[str], str | None] = lambda _: None,
) -> Finding | None:
    """The finding about a program that did not fit; None if it fits.

    Args:
        program: as it was planned.
        source: what it was planned from; None: it is not to be planned again.
        machine: that it was planned for.
        largest: values of the fullest tile with their lines; (): those of the plan.
        text_of: gives the text of the user's files; None: unknown.
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
    named = largest or [(name, size, None) for name, size in memory.largest]
    values = [f"{name} {bytes_text(size)}{f' ({line})' if line else ''}" for name, size, line in list(named)[:_LARGEST]]
    text = f"{program.name} does not fit, so it never ran: {', and '.join(parts)}. Largest on that tile: {', '.join(values)}."
    scopes = {leaf.scope for leaf in leaves(program.body)}
    found = remedies(program, source, machine, could_recompute=could_recompute(scopes))
    line = jit_of(program, text_of).line or line_of_call(program)
    text, best = f"{text} {found.text}", found.best
    if best is None:
        return Finding(kind="memory", text=text, line=line, unknown=found.unknown, urgent=True)
    return Finding(kind="memory", text=text, edit=best.edit, line=best.line or line, gain=best.gain, urgent=True)


def refused(report: Report) -> Iterator[tuple[CompiledProgram, Finding]]:
    """Programs of a recording that did not fit, those that miss most first, each with what is to do about it."""
    if "compilation" not in report.parts:
        return
    machine, left = report.target.machine, MOST_PLANNED
    programs = [program for program in report.compilation.programs if not program.runs and program.has_tree]
    programs = [program for program in programs if not fits(program.planned.memory, machine.ipu.tile)]
    if not programs:
        return
    try:
        texts, options = hlo_of(report.tables), options_of(report.tables)
    except RecordingError:
        texts, options = {}, {}
    found: Any = json_text(report.tables, "sources")
    files = cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def text_of(path: str) -> str | None:
        text = files.get(path)
        return text if isinstance(text, str) else None

    for program in sorted(programs, key=lambda program: -program.planned.memory.peak_bytes)[:_MOST]:
        text, kept = texts.get(program.key), options.get(program.key)
        source = None
        if text is not None and kept is not None and _PLANS * len(text) <= left:
            source, left = Source(text=lambda text=text: text, options=kept), left - _PLANS * len(text)
        largest = _largest(program)
        try:
            finding = did_not_fit(program.planned, source, machine, largest=largest, text_of=text_of)
        except TilestepError:
            finding = did_not_fit(program.planned, None, machine, largest=largest, text_of=text_of)
        if finding is not None:
            yield program, finding


def _largest(program: CompiledProgram) -> list[Named]:
    """What lies on the fullest tile when it is fullest, with lines; [] if the recording has not the lives of values."""
    memory = program.planned.memory
    if not program.detailed:
        return []
    try:
        lines = {variable.name: variable.line for variable in program.memory.variables}
    except RecordingError:
        return []
    named = [(name, size, lines.get(name)) for name, size in memory.largest]
    return [(name, size, None if line is None else Line(file=line.file, number=line.line)) for name, size, line in named]
