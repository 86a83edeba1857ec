"""The calls of an emulated session, and its notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tilestep.advice.finding import Line
from tilestep.engine_options import EngineOptions
from tilestep.figures.file_names import RUN_FILE
from tilestep.machine.spec import MachineSpec
from tilestep.popart.session.emulation.options import EmulationOptions
from tilestep.popart.session.emulation.program import EmulatedProgram


class Ran(NamedTuple):
    """The session was called."""

    name: str = ""  # of the call
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
