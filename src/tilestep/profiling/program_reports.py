"""Reports of programs when they are compiled: for POPLAR_ENGINE_OPTIONS of each, else of one that does not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import final

import jax

from tilestep.engine_options import EngineOptions
from tilestep.errors import RecordingError
from tilestep.figures.file_names import MEMORY_FILE
from tilestep.messages import plain
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan import Liveness, Program
from tilestep.profiling.report_folders import report_folders
from tilestep.views.files import PlannedProgram, ProgramParts, has_program, program_folder, tell_unwritten, unwritten, write_program


@final
class ProgramReports:
    """Writes the folders of programs.

    Args: engine: options of the process.
    """

    def __init__(self, engine: EngineOptions) -> None:
        self._engine = engine
        self._told = False

    def compiled(self, source: ProgramSource, key: int) -> None:
        """Writes the folder of a program that fits, if the options ask for one. The first that cannot be written is a line on stderr."""
        engine = self._engine
        if engine.directory is None or not engine.of_programs:
            return
        parts = ProgramParts(
            memory=engine.graph_profile, hlo=engine.serialized_graph, variables=engine.lowered_vars, lines=engine.debug_info
        )
        try:
            self._write(source, engine.directory, key, parts, source.detail)
        except (OSError, RecordingError) as error:
            if not self._told:
                self._told = True
                tell_unwritten(unwritten(error))

    def does_not_fit(self, source: ProgramSource, key: int) -> str:
        """Writes the report of a program that does not fit, to every folder that reports go to.

        Returns: the path of the first report that says what takes its memory; if it cannot be written, why; '' without such a folder.
        """
        engine = self._engine
        folders = report_folders()
        targets = {directory: ProgramParts(lines=lines) for directory, lines in folders.items()}
        if engine.directory is not None:
            lines = engine.debug_info and folders.get(engine.directory, True)
            parts = ProgramParts(hlo=engine.serialized_graph, variables=engine.lowered_vars, lines=lines)
            targets = {engine.directory: parts, **{folder: others for folder, others in targets.items() if folder != engine.directory}}
        return next(iter([self._kept(source, directory, key, parts) for directory, parts in targets.items()]), "")

    def _kept(self, source: ProgramSource, directory: Path, key: int, parts: ProgramParts) -> str:
        try:
            return plain(self._write(source, directory, key, parts, lambda: source.kept_detail) / MEMORY_FILE)
        except (OSError, RecordingError) as error:
            return unwritten(error)

    def _write(
        self, source: ProgramSource, directory: Path, key: int, parts: ProgramParts, detail: Callable[[], tuple[Program, Liveness]]
    ) -> Path:
        """Writes the parts that the program's folder does not have yet; returns the folder."""
        folder = program_folder(directory, source.name, source.fingerprint)
        if not has_program(folder, source.fingerprint, parts, lines=source.lines):
            program, lives = detail()
            notes = {"jax": jax.__version__, "engine_options": self._engine.recorded(lines=parts.lines)}
            planned = PlannedProgram(
                program=program,
                detail=lives,
                machine=source.machine,
                options=source.options,
                key=key,
                fingerprint=source.fingerprint,
                lines=source.lines,
                hlo=source.text,
            )
            write_program(folder, planned, parts, notes)
        return folder
