"""Reports of a session: figures, recordings and files, worked out from its notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from tilestep.errors import RecordingError
from tilestep.files import filled_directory
from tilestep.pjrt.running.measurement import Measurement, measurement_of
from tilestep.pjrt.running.player import Begin
from tilestep.pjrt.running.program_reports import ProgramReports
from tilestep.popart.session.emulation.advice_words import operation_of
from tilestep.popart.session.emulation.calls import Notes, SessionProgram, SessionSystem
from tilestep.popart.session.emulation.notes import SessionNotes, ToHost
from tilestep.popart.session.emulation.one_stage_advice import rules_of
from tilestep.popart.session.emulation.weights_advice import WeightReads
from tilestep.record.tables import Tables
from tilestep.report.file_names import MEMORY_FILE, PAGE_FILE, PROGRAM_FILE
from tilestep.report.files import tell_unwritten, unwritten, write_report
from tilestep.report.memory import memory_text
from tilestep.report.reader import Report


@final
class Told:
    """What a session of one program tells of itself. Args: close: writes its report, unless that is written."""

    def __init__(self, notes: Notes, close: Callable[[], Any]) -> None:
        self._notes, self.name, self.machine, self.close = notes, notes.name, notes.machine, close

    def summary(self) -> str:
        """The figures of the whole session as text; '' for one without a program."""
        return summary_of(self._notes, whole=True) if self._notes.programs else ""

    @property
    def page(self) -> Path | None:
        """The page of its report, once it is written."""
        return self._notes.page


def measured(notes: Notes) -> Measurement:
    """What a session did."""
    played = SessionSystem(notes)
    played.play(notes.first)
    history = played.record()
    begin = Begin(played.system.mark(), history)
    played.play(len(notes.calls))
    sources = {key: program.planned.source for key, program in notes.programs.items()}
    found = measurement_of(played.system, begin, played.system.mark(), notes.engine, sources)
    reads = WeightReads(sum(isinstance(call, ToHost) for call in notes.calls[notes.first :]), notes.reads_at)
    profile = replace(found.profile, rules=rules_of(notes.returned, notes.line, reads), operation_of=operation_of)
    return replace(found, profile=profile)


def tables_of(measurement: Measurement) -> Tables:
    """The recording of a measurement, with what its options ask for, and at least all that a reader needs."""
    return measurement.recording(lines=True, hlo=measurement.engine.serialized_graph)


def report_of(notes: Notes) -> Report:
    """The recording of a session, opened."""
    return Report(tables_of(measured(notes)), where=f"the report of session '{notes.name}'")


def summary_of(notes: Notes, *, whole: bool = False) -> str:
    """The figures of a session as text, and the memory of its programs that have not run.

    Args: whole: whether to count all calls, also those before a reset of the profile.
    """
    measurement = measured(replace(notes, first=0) if whole else notes)
    ran = {program.key for program in measurement.profile.programs}
    silent = [program for key, program in notes.programs.items() if key not in ran]
    return "\n\n".join([measurement.profile.summary(), *map(memory_of, silent)])


def memory_of(program: SessionProgram) -> str:
    """The memory of a program as text."""
    planned, detail = program.planned.source.detail()
    return memory_text(planned, detail, program.planned.source.machine)


def write_program(notes: Notes, program: SessionProgram) -> None:
    """Writes the folder of a program if the options ask for one."""
    ProgramReports(notes.engine).compiled(program.planned.source, program.key)


def write_unfit(notes: Notes, program: SessionProgram) -> str:
    """Writes the folder of a program that does not fit, if there is a place for reports.

    Returns: the path of its recording; '' if there is no place, or none can be written.
    """
    path = ProgramReports(notes.engine).does_not_fit(program.planned.source, program.key)
    return path.removesuffix(MEMORY_FILE) + PROGRAM_FILE if path.endswith(MEMORY_FILE) else ""


def write(notes: SessionNotes, measured: Callable[[], Measurement]) -> None:
    """Writes the recording, the profile and its summary if the options ask for them. A file that cannot be written is a line on stderr.

    Args: measured: what the session did; asked only if something is written.
    """
    engine = notes.engine
    if engine.directory is None or not engine.execution_profile:
        return
    measurement = measured()
    try:
        recording = measurement.recording(lines=engine.debug_info, hlo=engine.serialized_graph, memory=engine.graph_profile)
        with filled_directory(engine.directory) as directory:
            without_page = write_report(measurement.profile, directory, recording=recording, lines=not engine.hides_lines)
        tell_unwritten(without_page)
        notes.page = None if without_page else engine.directory / PAGE_FILE
    except (OSError, RecordingError) as error:
        tell_unwritten(unwritten(error))
