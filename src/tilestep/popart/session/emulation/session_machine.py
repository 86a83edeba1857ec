"""The emulated machine of one session."""

from __future__ import annotations

import atexit
import functools
import os
import weakref
from contextlib import AbstractContextManager
from typing import Final, final

from tilestep.figures.reader import Report
from tilestep.machine.spec import MachineSpec
from tilestep.popart.session.announcements import Announced
from tilestep.popart.session.emulation.notes import EmulationOptions, FromHost, Notes, Ran, ToHost
from tilestep.popart.session.emulation.play import inner_cycles
from tilestep.popart.session.emulation.plays import Plays, tables_of
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.popart.session.emulation.session_labels import line_now
from tilestep.profiling.plugin import initialize

_sessions: Final[Announced[Plays]] = Announced()


def watched_sessions() -> AbstractContextManager[list[Plays]]:
    """Yields a list that takes up what is told of each session that is made in the block. It stays when a session is gone."""
    return _sessions.heard()


def summary(sessions: list[Plays]) -> str:
    """The figures of whole sessions as text, each under its name and its machine. One without a program is left out; '' if all are."""
    told = [(session, session.summary()) for session in sessions]
    return "\n\n".join(f"session '{session.name}' on {session.machine.name}\n{text}" for session, text in told if text)


@final
class Emulation:
    """The machine of one session: it runs the session's pipeline dry when somebody asks for a figure.

    Args:
        machine: to emulate: that of the session's device, or what a setting has put in its place.
        name: of the session; its report is written to a folder of that name.
        options: of plans and reports.

    Attributes:
        machine: to emulate.
    """

    def __init__(self, machine: MachineSpec, *, name: str, options: EmulationOptions | None = None) -> None:
        self.machine = machine
        self._notes = Notes(machine=machine, name=name, options=options or EmulationOptions())
        self._plays = Plays(self._notes)
        _sessions.announce(self._plays)
        if self._notes.profile_path:
            _write_at_exit()
            _unwritten[id(self._plays)] = self._plays
        weakref.finalize(self, self._plays.forget).atexit = False  # a report may need them again

    def prepare(self, program: EmulatedProgram) -> None:
        """Plans the session's programs, by one dry run. Raises: OutOfMemoryException if an IPU's tiles do not hold them."""
        self._notes.program, self._notes.line = program, line_now()
        self._plays.forget()
        self._plays.require_fits()

    def ran(self, *, times: int = 1, name: str = "", forward: bool = False) -> None:
        """Notes that the session was called so many times. Args: name: of the call, in reports. forward: the forward part alone."""
        self._notes.calls.extend([Ran(name, forward=forward)] * times)

    def weights_from_host(self) -> None:
        """Notes that the host sends new values of the weights and of the optimiser's state."""
        self._notes.calls.append(FromHost())

    def weights_to_host(self) -> None:
        """Notes that the host reads the weights and the optimiser's state."""
        self._notes.reads_at = self._notes.reads_at or line_now()
        self._notes.calls.append(ToHost())

    def cycles(self) -> int:
        """Cycles of the last call, from the first step of an IPU to the last one of any. Raises: popart_runtime_error if nothing ran."""
        return self._plays.last().cycles

    def inner_cycles(self, ipu: int = 0) -> int:
        """Cycles of the steps of the last call on one IPU, without transfers to and from the host; 0 if it took no part.

        Raises: popart_runtime_error if nothing ran.
        """
        return inner_cycles(self._plays.last().by_ipu, ipu)

    def total_cycles(self) -> int:
        """Cycles of the machine's clock until all that the session has called is done."""
        play = self._plays.live
        play.play(len(self._notes.calls))
        return play.player.mark().cycle - play.start.cycle

    def tile_bytes(self, ipu: int) -> int:
        """Bytes on the fullest tile of an IPU."""
        return self._plays.uses[ipu].peak_bytes

    def report(self) -> Report:
        """The recording of the session so far, opened: its programs and its runs."""
        return Report(tables_of(self._plays.measured()), where=f"the report of session '{self._notes.name}'")

    def summary(self) -> str:
        """The figures of the session so far as text."""
        return self._plays.measured().profile.summary()

    def reset_profile(self) -> None:
        """Reports count from now on. What is on the device stays there."""
        self._notes.first = len(self._notes.calls)

    @property
    def profile_path(self) -> str:
        """The path that the recording has when the session is closed; '' if the options ask for none."""
        return self._notes.profile_path

    def close(self) -> None:
        """Writes the report that the options ask for, once. Happens by itself when the process ends.

        It does not when the emulation is no longer used, because a dry run may not begin wherever Python collects garbage.
        """
        _unwritten.pop(id(self._plays), None)
        self._plays.close()


_unwritten: Final[dict[int, Plays]] = {}  # of sessions whose report is not written yet, in order


@functools.cache
def _write_at_exit() -> None:
    """Writes all reports when the process ends, before the platform shuts down."""
    initialize()  # which says when that is; what is registered later runs earlier
    atexit.register(_write_all, os.getpid())


def _write_all(process: int) -> None:
    while _unwritten and os.getpid() == process:  # a fork writes no report
        _unwritten.pop(next(iter(_unwritten))).close()
