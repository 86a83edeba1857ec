"""What stands above the platform, as the platform sees it: it is told of programs and of the process's end, and serves profilers."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from tilestep.engine_options import EngineOptions
from tilestep.pjrt.running.program_source import ProgramSource


class Reports(Protocol):
    """Reports of programs."""

    def compiled(self, source: ProgramSource, key: int) -> None:
        """A program was compiled, and fits."""
        ...

    def does_not_fit(self, source: ProgramSource, key: int) -> str:
        """A program does not fit. Returns: where its report is, or why there is none; '' if nobody wants one."""
        ...


class Door(NamedTuple):
    """What is above the platform."""

    reports: Callable[[EngineOptions], Reports]  # makes the reports of a client's programs, by the engine's options
    profiler_session: Callable[[bytes], Any]  # makes a session of jax.profiler, of a serialised ProfileOptions
    at_exit: Callable[[], None]  # is called when all work is done, before the platform is closed
