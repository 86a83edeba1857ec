"""Recordings as objects, with the concepts of PopVision's analysis library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast, final

from tilestep.errors import RecordingError
from tilestep.figures.file_names import PROGRAM_FILE, PROGRAMS, RUN_FILE
from tilestep.figures.reader.programs.compilation import Compilation, CompiledProgram, Target
from tilestep.figures.reader.runs.execution import Execution
from tilestep.figures.reader.system import System
from tilestep.figures.records import SCHEMA_VERSION
from tilestep.messages import plain, shown
from tilestep.recording.call_tables import history_of
from tilestep.recording.history import History
from tilestep.recording.machine import machine_from_document
from tilestep.recording.merge import are_of_one_job, merged
from tilestep.recording.replay import with_all_events
from tilestep.recording.schema import SUFFIX
from tilestep.recording.storage.container import read_recording
from tilestep.recording.tables import Tables, json_text

MOST_PROCESSES: Final = 64  # their traces are read together
_NAMED: Final = 6  # files of a folder that a message names
_PARTS: Final = {
    "compilation": ("programs", "no program was compiled, or `output*` options of autoReport left the programs out"),
    "execution": ("runs", "no program ran, as after a compile that ran out of memory, or autoReport.outputExecutionProfile was false"),
    "system": ("processes", "nothing traced the host: set PVTI_OPTIONS, or use tilestep.tracepoint"),
}


@final
class Report:
    """A recording.

    A part that was not recorded is no part of `parts`, and asking for it is a `RecordingError` that says why it may be missing.

    Args:
        tables: of the recording.
        where: what messages call it.
    Attributes:
        tables: its columns and texts, as docs/reference/recording-format.md describes them.
    """

    def __init__(self, tables: Tables, *, where: str = "the recording") -> None:
        self.tables, self.where = tables, where

    def __repr__(self) -> str:
        return f"<{self.where}: {', '.join(self.parts) or 'nothing'}>"

    @property
    def version(self) -> str:
        """Of tilestep, which made it."""
        return str(self.tables.manifest.get("tilestep", "unknown"))

    @property
    def notes(self) -> Mapping[str, Any]:
        """The manifest."""
        return self.tables.manifest

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of 'compilation', 'execution' and 'system' it has."""
        return tuple(part for part, (table, _) in _PARTS.items() if self.tables.has(table))

    @cached_property
    def target(self) -> Target:
        """The emulated machine. Raises: RecordingError if it was not recorded, or cannot be."""
        document = json_text(self.tables, "machine")
        if document is None:
            raise RecordingError(f"{self.where} has no machine: nothing of it was emulated")
        return Target(machine=machine_from_document(document))

    @cached_property
    def compilation(self) -> Compilation:
        """Programs, their trees and their memory. Raises: RecordingError if it was not recorded."""
        self._require("compilation")
        return Compilation(self.tables, self.target)

    @property
    def programs(self) -> tuple[CompiledProgram, ...]:
        """Those of `compilation`; () if it was not recorded."""
        return self.compilation.programs if "compilation" in self.parts else ()

    @cached_property
    def execution(self) -> Execution:
        """Runs, events, blocks. Raises: RecordingError if it was not recorded."""
        self._require("execution")
        return Execution(self.tables, self.compilation)

    @cached_property
    def system(self) -> System:
        """What the host did, in wall time. Raises: RecordingError if it was not recorded."""
        self._require("system")
        return System(self.tables)

    @cached_property
    def profile(self) -> Mapping[str, Any]:
        """The figures of the profile, as profile.json has them; empty if they were not recorded.

        Raises: RecordingError if they are of a newer form, whose names may mean something else, or are no JSON.
        """
        document: Any = json_text(self.tables, "profile")
        profile = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        form = profile.get("version", SCHEMA_VERSION)
        if type(form) is int and form > SCHEMA_VERSION:
            raise RecordingError(
                f"{self.where} has a profile of form {shown(form)}: this version of tilestep reads forms up to {SCHEMA_VERSION}: "
                "install a newer one"
            )
        return profile

    @cached_property
    def history(self) -> History:
        """Its journal, which can be played again. Raises: RecordingError if the journal was not kept, or is damaged."""
        return history_of(self.tables)

    def in_full(self) -> Report:
        """The same with the events of all runs. Those that the file left out are worked out again from its journal.

        Of more than 500,000 events the first so many are there, and the latest; `critical_path().complete` says whether that was enough.

        Raises: RecordingError if the journal was not kept or was cut, or cannot be played.
        """
        full = Report(with_all_events(self.tables, self.history), where=self.where)
        full.compilation = self.compilation  # it is of no events, and its trees have been read
        return full

    def _require(self, part: str) -> None:
        if part not in self.parts:
            raise RecordingError(f"{self.where} has no {part}: {_PARTS[part][1]}")


def open_report(path: str | PathLike[str]) -> Report:
    """Opens a recording.

    Args:
        path: a .tilestep file; or the folder of `tilestep.profile`, `tilestep run --report` or autoReport, or a program's folder in one; or
            a folder with one .tilestep file, as PVTI_OPTIONS leaves it, or with those of several processes that ran at the same time.

    Returns:
        Its target, compilation, execution and system.

    Raises:
        RecordingError: the file is no recording, is damaged or too large, or was made by a newer version; or the folder has none, or
            several files of which none is a report's. What only columns show is found when they are read.
        OSError: there is no such file, or it cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        job = _job_in(path)
        if not isinstance(job, str):
            return Report(job, where=f"recordings in '{plain(path)}'")
        path = _file_in(path, job)
    return Report(read_recording(path), where=f"recording '{plain(path)}'")


def _job_in(folder: Path) -> Tables | str:
    """The traces of a folder as one; else why they are not: '' if it has other recordings, or processes that ran one after the other."""
    files = sorted(each for each in folder.iterdir() if each.name.endswith(SUFFIX))
    if not 1 < len(files) <= MOST_PROCESSES or any(each.name in (RUN_FILE, PROGRAM_FILE) for each in files):
        return ""
    try:
        traces = [read_recording(each) for each in files]
        return merged(traces) if are_of_one_job(traces) else ""
    except RecordingError as error:
        return f"together they cannot be read: {error}"


def _file_in(folder: Path, apart: str) -> Path:
    """The recording that a folder is opened for.

    Args: apart: why its recordings are not read as one; ''.
    Raises: RecordingError if it has none, or several of which none is that of the report.
    """
    names = sorted(os.listdir(folder))
    recordings = [name for name in names if name.endswith(SUFFIX)]
    for name in (RUN_FILE, PROGRAM_FILE):
        if name in recordings:
            return folder / name
    if len(recordings) == 1:
        return folder / recordings[0]
    where = f"folder '{plain(folder)}'"
    if recordings:
        inside = ", ".join(map(plain, recordings[-_NAMED:]))
        more = f"the last {_NAMED} are {inside}" if len(recordings) > _NAMED else inside
        raise RecordingError(f"{where} has {len(recordings):,} recordings: name one of them ({more}){apart and f'; {apart}'}")
    if PROGRAMS in names:
        raise RecordingError(f"{where} has no {RUN_FILE}: name the folder of a program in {plain(folder / PROGRAMS)}")
    found = f"has no {RUN_FILE} and no {PROGRAM_FILE}, but {', '.join(map(plain, names[:_NAMED]))}" if names else "is empty"
    raise RecordingError(f"{where} {found}: name a .tilestep file, or a folder with one")
