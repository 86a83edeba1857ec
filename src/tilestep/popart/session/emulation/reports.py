"""Reports of a session: recordings and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilestep.errors import RecordingError
from tilestep.figures.file_names import MEMORY_FILE, PAGE_FILE, PROGRAM_FILE
from tilestep.files import filled_directory
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.popart.session.emulation.notes import Notes
from tilestep.profiling.measurement import Measurement
from tilestep.profiling.program_reports import ProgramReports
from tilestep.recording.tables import Tables
from tilestep.views.files import tell_unwritten, unwritten, write_report


def tables_of(measurement: Measurement) -> Tables:
    """The recording of a measurement, with what its options ask for, and at least all that a reader needs."""
    return measurement.recording(lines=True, hlo=measurement.engine.serialized_graph)


def write_programs(notes: Notes, sources: Mapping[int, ProgramSource]) -> None:
    """Writes the folders of programs if the options ask for them. Args: sources: what they were planned from, by key."""
    reports = ProgramReports(notes.engine)
    for key, source in sources.items():
        reports.compiled(source, key)


def write_unfit(notes: Notes, key: int, source: ProgramSource) -> str:
    """Writes the folder of a program that does not fit, if there is a place for reports.

    Returns: the path of its recording; '' if there is no place, or none can be written.
    """
    path = ProgramReports(notes.engine).does_not_fit(source, key)
    return path.removesuffix(MEMORY_FILE) + PROGRAM_FILE if path.endswith(MEMORY_FILE) else ""


def write(notes: Notes, measured: Callable[[], Measurement]) -> None:
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
