"""The files of a report: of a run, and in a folder of its own for each program."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tilestep.advice import Advice
from tilestep.errors import RecordingError
from tilestep.figures.file_names import (
    HLO_FILE,
    MEMORY_FILE,
    PAGE_FILE,
    PROGRAM_FILE,
    PROGRAMS,
    REPORT_FILES,
    RUN_FILE,
    VARIABLES_FILE,
    folder_name,
)
from tilestep.figures.reader import Report
from tilestep.files import filled_directory, write_file
from tilestep.machine.spec import MachineSpec
from tilestep.messages import plain
from tilestep.options import PlanOptions
from tilestep.plan.memory.liveness import Liveness
from tilestep.plan.steps import Program
from tilestep.program.frames import without_frames
from tilestep.recording.machine import machine_document
from tilestep.recording.program import ProgramTables, RecordedCompilation
from tilestep.recording.storage.container import Builder, Tables, read_recording, write_recording
from tilestep.views.memory import memory_text, variables_text
from tilestep.views.profile import Profile

_FINGERPRINT: Final = 8  # characters of it in a folder's name


def write_report(profile: Profile, directory: Path, *, recording: Tables | None = None, lines: bool = True) -> str:
    """Writes a profile as JSON, its summary as text, and the recording that it was taken from, with its page.

    Args: recording: of the same runs; None: there is none, and the files of an earlier one stay. lines: whether the files may name lines of
        the user's source; else they have no findings of the profile, because those do.
    Returns: why there is no page of them, and how to make one; '' if nothing is missing.
    Raises: OSError naming the file that cannot be written; RecordingError if the recording is too large to be read again.
    """
    profile = profile if lines else replace(profile, given=Advice(findings=(), steady=profile.steady))
    for name, text in zip(REPORT_FILES, (profile.to_json(), profile.summary()), strict=True):
        write_file(directory / name, text + "\n")
    if recording is None:
        return ""
    write_recording(directory / RUN_FILE, recording)
    page = directory / PAGE_FILE
    try:
        from tilestep.views.page import page_html  # half of this folder, which a process that writes no page need not load

        write_file(page, page_html(Report(recording), labels=(directory.name, "")))
    except Exception as error:  # the recording is there, from which a page can be made: a run does not fail for it
        stale = " (the file there is of an earlier run)" if page.is_file() else ""
        folder = shlex.quote(plain(directory))
        way = f"`tilestep report html {folder} -o FILE` makes a page of it"
        return f"{plain(page)} is not written{stale}: {_why(error)}; run.tilestep is: {way}"
    return ""


def unwritten(error: OSError | RecordingError) -> str:
    """Which file of a report cannot be written, and why."""
    return f"{plain(error.filename)} cannot be written: {error.strerror}" if isinstance(error, OSError) else plain(error)


def tell_unwritten(what: str) -> None:
    """Says on stderr which file of the process's own report is not written. The program goes on, and ends as it would have.

    Args: what: a sentence; '' says nothing.
    """
    if what and sys.stderr is not None:  # a process may have none
        with contextlib.suppress(OSError, ValueError):  # nobody reads it
            print(f"tilestep: POPLAR_ENGINE_OPTIONS: autoReport.directory: {what}", file=sys.stderr)


def _why(error: Exception) -> str:
    """The reason of an error that a report need not end for; one of no kind that the package raises has its name before it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return plain(error) if isinstance(error, RecordingError) else f"{type(error).__name__}: {plain(error)}"


@dataclass(frozen=True, kw_only=True)
class ProgramParts:
    """What the folder of a program has.

    Attributes:
        memory: its recording, and its memory as text.
        hlo: its HLO.
        variables: the list of its values.
        lines: whether they name lines of the user's source.
    """

    memory: bool = True
    hlo: bool = False
    variables: bool = False
    lines: bool = True


@dataclass(frozen=True, kw_only=True)
class PlannedProgram:
    """A program as it was planned, and what it was planned from.

    Attributes:
        program, detail: as `lower_in_detail` gives them.
        key: number of the program in its process.
        fingerprint: hexadecimal, of the program.
        lines: changes when a line of the user's source has moved.
    """

    program: Program
    detail: Liveness
    machine: MachineSpec
    options: PlanOptions
    key: int
    fingerprint: str
    lines: str
    hlo: str


def program_folder(directory: Path, name: str, fingerprint: str) -> Path:
    """The folder of a program in a report: equal for equal programs, also of another process."""
    return directory / PROGRAMS / f"{folder_name(name, otherwise='program')}-{fingerprint[:_FINGERPRINT]}"


def has_program(folder: Path, fingerprint: str, parts: ProgramParts, *, lines: str) -> bool:
    """Whether a folder has all parts of that program already, as this version of the package writes them.

    Args: lines: those of the `PlannedProgram`.
    """
    wanted = {PROGRAM_FILE: parts.memory, MEMORY_FILE: parts.memory, HLO_FILE: parts.hlo, VARIABLES_FILE: parts.variables}
    if not all((folder / name).is_file() for name, there in wanted.items() if there):
        return False
    if not parts.memory:
        return True
    try:
        manifest = read_recording(folder / PROGRAM_FILE).manifest
    except (OSError, RecordingError):
        return False
    expected = Builder(kind="program", notes=_notes(fingerprint, parts, lines)).tables().manifest
    return all(manifest.get(note) == value for note, value in expected.items())


def write_program(folder: Path, planned: PlannedProgram, parts: ProgramParts, notes: Mapping[str, Any]) -> None:
    """Writes the parts of a program into its folder, which is made if it is missing. Files of other parts stay as they are.

    Args: notes: for the recording's manifest.
    Raises: OSError naming the file that cannot be written; RecordingError if the recording is too large to be read again.
    """
    program, detail, machine = planned.program, planned.detail, planned.machine
    hlo = planned.hlo if parts.lines else without_frames(planned.hlo)
    with filled_directory(folder):
        if parts.memory:
            write_file(folder / MEMORY_FILE, memory_text(program, detail, machine, lines=parts.lines))
        if parts.hlo:
            write_file(folder / HLO_FILE, hlo)
        if parts.variables:
            write_file(folder / VARIABLES_FILE, variables_text(program, detail, lines=parts.lines))
        if parts.memory:  # last, because its presence says that the others are there
            builder = Builder(kind="program", notes={**notes, **_notes(planned.fingerprint, parts, planned.lines)})
            programs = ProgramTables(builder, lines=parts.lines)
            kept = hlo if parts.hlo else None
            compiled = RecordedCompilation(
                program=program, detail=detail, fingerprint=planned.fingerprint, hlo=kept, options=planned.options
            )
            programs.add(compiled, key=planned.key)
            programs.finish()
            builder.put_json("machine", machine_document(machine))
            write_recording(folder / PROGRAM_FILE, builder.tables())


def _notes(fingerprint: str, parts: ProgramParts, lines: str) -> dict[str, Any]:
    return {"fingerprint": fingerprint, "lines": lines if parts.lines else ""}
