"""Programs of a recording that did not fit and never ran: a finding for each, which stands before those of the profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tilestep.errors import RecordingError, TilestepError
from tilestep.plan.liveness import fits
from tilestep.record.sources import Source, hlo_of, options_of
from tilestep.record.tables import json_text
from tilestep.report.advice.finding import Finding, Line
from tilestep.report.advice.refused import Named, did_not_fit
from tilestep.report.page.sections.rooms import MOST_PLANNED
from tilestep.report.page.untrusted import text_in
from tilestep.report.reader import CompiledProgram, Report

_MOST: Final = 20  # programs
_PLANS: Final = 12  # of one program, about


def refused(report: Report) -> Iterator[tuple[CompiledProgram, Finding]]:
    """Programs that did not fit, those that miss most first, each with what is to do about it."""
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
    files: Any = json_text(report.tables, "sources")

    def text_of(path: str) -> str | None:
        return text_in(files, path) or None

    for program in sorted(programs, key=lambda program: -program.planned.memory.peak_bytes)[:_MOST]:
        text, kept = texts.get(program.key), options.get(program.key)
        source = None
        if text is not None and kept is not None and _PLANS * len(text) <= left:
            source, left = Source(text=lambda text=text: text, options=kept), left - _PLANS * len(text)
        largest = _largest(program)
        try:
            found = did_not_fit(program.planned, source, machine, largest=largest, text_of=text_of)
        except TilestepError:
            found = did_not_fit(program.planned, None, machine, largest=largest, text_of=text_of)
        if found is not None:
            yield program, found


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
