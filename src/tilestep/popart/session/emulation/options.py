"""Options of a session's machine: how its programs are planned, and what its reports have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tilestep.engine_options import EngineOptions
from tilestep.messages import plain
from tilestep.options import PlanOptions
from tilestep.settings import read_program_engine_options

_LONGEST_FOLDER: Final = 60  # characters, of which each may have four bytes; a file's name has 255 at most


@dataclass(frozen=True, kw_only=True)
class EmulationOptions:
    """Options of a session's machine.

    Attributes:
        plan: how matmuls and convolutions are planned, and how many tiles only transfer.
        engine: what reports have, and where they are written.
        allow_out_of_memory: whether a program that does not fit runs nevertheless; its report says so.
    """

    plan: PlanOptions = field(default_factory=PlanOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    allow_out_of_memory: bool = False

    def report_directory(self, session: str) -> Path | None:
        """The directory of a session's report: that of autoReport.directory, in a folder with the session's name; None: it writes none."""
        directory = self.engine.directory
        return None if directory is None or not session else directory / _folder(session)

    def of_session(self, session: str) -> EngineOptions:
        """The options of the engine for one session. Programs that never ran are in its report, too."""
        return replace(self.engine, directory=self.report_directory(session) or self.engine.directory, retain_debug_information=True)


def _folder(session: str) -> str:
    """A session's name as that of one folder, which lies in its parent whatever the name is."""
    name = plain(session).replace("/", "_")[:_LONGEST_FOLDER]
    return "_" * len(name) if not name.strip(".") else name


def emulation_options(engine: Mapping[str, Any] | None = None, plan: PlanOptions | None = None) -> EmulationOptions:
    """The options that a program and POPLAR_ENGINE_OPTIONS state. What the program states goes before the variable.

    `debug.allowOutOfMemory` lets a program run that does not fit only if the variable states it. A session's own option gives the
    exception a report, as the original's does.

    Args:
        engine: options of the engine, by name, as in SessionOptions.engineOptions.
        plan: options of plans.

    Raises:
        SettingsError: for an option of the engine that does not exist, or a value that is not allowed.
    """
    both, of_variable = read_program_engine_options(engine or {})
    return EmulationOptions(plan=plan or PlanOptions(), engine=both, allow_out_of_memory=of_variable.allow_out_of_memory)
