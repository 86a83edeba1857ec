"""Options of a session's machine: how its programs are planned, and what its reports have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tilestep.engine_options import EngineOptions
from tilestep.figures.file_names import folder_name
from tilestep.options import PlanOptions
from tilestep.settings import read_program_engine_options

_taken: Final[set[Path]] = set()  # directories of the reports of this process's sessions


@dataclass(frozen=True, kw_only=True)
class EmulationOptions:
    """Options of a session's machine.

    Attributes:
        plan: how matmuls and convolutions are planned, and how many tiles only transfer.
        engine: what reports have, and where they are written.
        allow_out_of_memory: whether a program that does not fit runs nevertheless; its report says so.
    """

    plan: PlanOptions = field(default_factory=lambda: PlanOptions(fusion="none"))
    engine: EngineOptions = field(default_factory=EngineOptions)
    allow_out_of_memory: bool = False

    def take_directory(self, session: str) -> Path | None:
        """The directory of a session's report, which no later session of the process gets; None: it writes none.

        It is that of autoReport.directory, in a folder with the session's name, and a number if an earlier session has that folder.
        """
        if self.engine.directory is None:
            return None
        first = self.engine.directory / folder_name(session, otherwise="session")
        numbered = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
        free = next(path for path in itertools.chain([first], numbered) if path not in _taken)
        _taken.add(free)
        return free

    def of_session(self, directory: Path | None) -> EngineOptions:
        """The options of the engine for one session. Programs that never ran are in its report, too. Args: directory: of its report."""
        return replace(self.engine, directory=directory, retain_debug_information=True)


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
    return EmulationOptions(plan=plan or PlanOptions(fusion="none"), engine=both, allow_out_of_memory=of_variable.allow_out_of_memory)
