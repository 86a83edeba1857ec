"""The programs that a recording tells of."""

from typing import Final, NamedTuple, final

from tilestep.errors import StreamingMemoryError, TileMemoryError
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan import Program
from tilestep.sim import System

_MOST_REFUSED: Final = 20


class RefusedProgram(NamedTuple):
    """A program that does not fit, so that it never runs."""

    program: Program  # as it was planned
    source: ProgramSource
    ipu: int  # the first of those that were to run it
    error: TileMemoryError | StreamingMemoryError


@final
class RecordedPrograms:
    """What the programs of one platform were planned from.

    Args:
        system: that they run on. A recording is under way while it keeps its calls.
        retains: whether all that are compiled are kept until the process ends (debug.retainDebugInformation).

    Attributes:
        sources: of the programs that ran while a recording was under way, by key; else of all that were compiled.
        refused: programs that did not fit while one was under way, by key.
    """

    def __init__(self, system: System, *, retains: bool) -> None:
        self._system, self._retains = system, retains
        self.sources: dict[int, ProgramSource] = {}
        self.refused: dict[int, RefusedProgram] = {}

    def compiled(self, key: int, source: ProgramSource) -> None:
        """A program was compiled, or loaded."""
        if self._retains:
            self.sources[key] = source

    def ran(self, key: int, source: ProgramSource) -> None:
        """A program ran."""
        if self._retains or self._system.log is not None:  # it may have been compiled for another player
            self.sources[key] = source

    def does_not_fit(self, key: int, refused: RefusedProgram) -> None:
        """A program was refused. A recording says so."""
        if self._system.log is not None and len(self.refused) < _MOST_REFUSED:
            self.refused[key] = refused

    def forget(self) -> None:
        """No recording is under way any more."""
        self.refused.clear()
        if not self._retains:
            self.sources.clear()
