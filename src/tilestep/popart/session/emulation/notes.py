"""What an emulated session has done: its calls; and how its machine plans and reports: its options."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from tilestep.advice.finding import Line
from tilestep.engine_options import EngineOptions
from tilestep.figures.file_names import RUN_FILE, folder_name
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.popart.session.emulation.program import EmulatedProgram
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


class Ran(NamedTuple):
    """The session was called, by this name."""

    name: str = ""
    forward: bool = False  # the forward part of a pipeline alone


class FromHost(NamedTuple):
    """The host has new values for all that stays on the device."""


class ToHost(NamedTuple):
    """The host reads all that stays on the device."""


Call = Ran | FromHost | ToHost


@dataclass(kw_only=True)
class Notes:
    """What a session has done: all that its figures are worked out from.

    Attributes:
        machine: that is emulated.
        name: of the session.
        options: of plans and reports.
        program: what it runs; None before it is prepared.
        calls: in order.
        line: of the user's program that prepared it last; None if that is unknown.
        first: number of the first call that reports count.
        directory: of its report; None: it writes none, or takes one now.
        page: of the report, once it is written.
        reads_at: the line of the user's program at which the host reads the weights first; None if that is unknown.
    """

    machine: MachineSpec
    name: str
    options: EmulationOptions
    program: EmulatedProgram | None = None
    calls: list[Call] = field(default_factory=list[Call])
    line: Line | None = None
    first: int = 0
    directory: Path | None = None
    page: Path | None = None
    reads_at: Line | None = None

    def __post_init__(self) -> None:
        if self.directory is None:
            self.directory = self.options.take_directory(self.name)

    @property
    def engine(self) -> EngineOptions:
        """The engine's options for this session."""
        return self.options.of_session(self.directory)

    @property
    def profile_path(self) -> str:
        """The path that the recording of the session has or will have; '' if none is asked for."""
        engine = self.engine
        return str(engine.directory / RUN_FILE) if engine.directory is not None and engine.execution_profile else ""


def end_of_equal(calls: Sequence[object], number: int, end: int) -> int:
    """The number behind the last of the calls from one on that are equal to it. Args: end: of those that are looked at."""
    call, after = calls[number], number + 1
    while after < end and calls[after] == call:
        after += 1
    return after
