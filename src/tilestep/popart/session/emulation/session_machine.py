"""The emulated machine of one session: what its figures and reports are worked out from."""

import atexit
import functools
import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from tilestep.advice import advice
from tilestep.errors import RecordingError
from tilestep.figures.file_names import MEMORY_FILE, PAGE_FILE, PROGRAM_FILE
from tilestep.figures.reader import Report
from tilestep.files import filled_directory
from tilestep.machine.spec import MachineSpec
from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.session.announcements import Announced
from tilestep.popart.session.emulation.advice import WeightReads, rules_of
from tilestep.popart.session.emulation.advice_words import operation_of
from tilestep.popart.session.emulation.memory import out_of_memory, too_large, unfit, way_out_of_stash
from tilestep.popart.session.emulation.notes import EmulationOptions, FromHost, Notes, Ran, ToHost
from tilestep.popart.session.emulation.play import SessionPlay, Spent, inner_cycles
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.popart.session.emulation.session_labels import line_now
from tilestep.profiling.measurement import Measurement, measurement_of
from tilestep.profiling.plugin import initialize
from tilestep.profiling.program_reports import ProgramReports
from tilestep.sim import TileUse
from tilestep.views.files import tell_unwritten, unwritten, write_report
from tilestep.views.memory import memory_text


@final
class Emulation:
    """The machine of one session: it runs the session's pipeline dry when somebody asks for a figure.

    It has two plays, each made when it is needed: one whose timeline is kept, for reports, and one without, for cycles. The one that has
    shown whether the session fits has seen no call yet: it becomes the one that is needed first.

    Args:
        machine: to emulate: that of the session's device, or what a setting has put in its place.
        name: of the session; its report is written to a folder of that name.
        options: of plans and reports.

    Attributes:
        machine: to emulate.
        name: of the session.
    """

    def __init__(self, machine: MachineSpec, *, name: str, options: EmulationOptions | None = None) -> None:
        self.machine, self.name = machine, name
        self._notes = Notes(machine=machine, name=name, options=options or EmulationOptions())
        self._unfit_facts = ""
        _sessions.announce(self)
        if self.profile_path:
            _write_at_exit()
            _unwritten_sessions[id(self)] = self

    def prepare(self, program: EmulatedProgram) -> None:
        """Plans the session's programs, by one dry run. Raises: OutOfMemoryException if an IPU's tiles do not hold them."""
        self._notes.program, self._notes.line = program, line_now()
        self.forget()
        self._require_fits()

    def forget(self) -> None:
        """Forgets all plays: the session has another program, or is gone. A report that needs them makes them again."""
        for name in ("_live", "_recorded"):
            vars(self).pop(name, None)

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
        return self._last().cycles

    def inner_cycles(self, ipu: int = 0) -> int:
        """Cycles of the steps of the last call on one IPU, without transfers to and from the host; 0 if it took no part.

        Raises: popart_runtime_error if nothing ran.
        """
        return inner_cycles(self._last().by_ipu, ipu)

    def total_cycles(self) -> int:
        """Cycles of the machine's clock until all that the session has called is done."""
        self._live.play(len(self._notes.calls))
        return self._live.player.mark().cycle - self._live.start.cycle

    def tile_bytes(self, ipu: int) -> int:
        """Bytes on the fullest tile of an IPU."""
        return self._uses[ipu].peak_bytes

    def report(self) -> Report:
        """The recording of the session so far, opened: its programs and its runs. It has at least all that a reader needs."""
        measurement = self._measured(self._notes.first)
        tables = measurement.recording(lines=True, hlo=measurement.engine.serialized_graph)
        return Report(tables, where=f"the report of session '{self.name}'")

    def summary(self, *, whole: bool = False) -> str:
        """The figures of the session so far as text. Args: whole: whether to count all calls, also those before a reset of the profile."""
        return self._measured(0 if whole else self._notes.first).profile.summary()

    def reset_profile(self) -> None:
        """Reports count from now on. What is on the device stays there."""
        self._notes.first = len(self._notes.calls)

    @property
    def profile_path(self) -> str:
        """The path that the recording has when the session is closed; '' if the options ask for none."""
        return self._notes.profile_path

    @property
    def page(self) -> Path | None:
        """The page of the report, once it is written."""
        return self._notes.page

    def final_summary(self) -> str:
        """The figures of the whole session, or what its program lacks that does not fit; '' if it was not prepared."""
        if self._unfit_facts and not self._notes.calls:
            return f"tilestep: does not fit: {self._unfit_facts}"
        return "" if self._notes.program is None else self.summary(whole=True)

    def close(self) -> None:
        """Writes the recording, the profile and its summary if the options ask for them, once. Happens by itself when the process ends.

        It does not when the emulation is no longer used, because a dry run may not begin wherever Python collects garbage. A file that
        cannot be written is a line on stderr.
        """
        engine = self._notes.engine
        if _unwritten_sessions.pop(id(self), None) is None or self._notes.program is None or engine.directory is None:
            return
        measurement = self._measured(self._notes.first)
        try:
            recording = measurement.recording(lines=engine.debug_info, hlo=engine.serialized_graph, memory=engine.graph_profile)
            with filled_directory(engine.directory) as directory:
                without_page = write_report(measurement.profile, directory, recording=recording, lines=not engine.hides_lines)
            tell_unwritten(without_page)
            self._notes.page = None if without_page else engine.directory / PAGE_FILE
        except (OSError, RecordingError) as error:
            tell_unwritten(unwritten(error))

    @functools.cached_property
    def _live(self) -> SessionPlay:
        """The play without a timeline."""
        return SessionPlay(self._notes, self._program)

    @functools.cached_property
    def _recorded(self) -> SessionPlay:
        play = vars(self).get("_live")
        if play is None or play.played:
            play = SessionPlay(self._notes, self._program)
        else:
            del self._live
        play.record()
        return play

    @property
    def _uses(self) -> tuple[TileUse, ...]:
        """Of each IPU, bytes on its fullest tile."""
        return (vars(self).get("_recorded") or self._live).uses

    @property
    def _program(self) -> EmulatedProgram:
        """What the session runs. Raises: popart_runtime_error if it has not been prepared."""
        program = self._notes.program
        if program is None:
            raise popart_runtime_error("The session has not been prepared: call session.prepareDevice() first")
        return program

    def _last(self) -> Spent:
        """What the last call of the program took. Raises: popart_runtime_error if nothing ran."""
        calls = self._notes.calls
        if not any(isinstance(call, Ran) for call in calls):
            raise popart_runtime_error("Must call run before getCycleCount.")
        self._live.play(len(calls))
        assert self._live.last is not None  # there was a call
        return self._live.last

    def _measured(self, first: int) -> Measurement:
        """What the session did. Args: first: number of the first call that counts."""
        notes, play = self._notes, self._recorded
        play.play(len(notes.calls))
        player, begin = play.player, play.begin(first)
        reads = WeightReads(sum(isinstance(call, ToHost) for call in notes.calls[first:]), notes.reads_at)
        found = measurement_of(player.system, begin, player.mark(), notes.engine, dict(player.programs.sources))
        given = advice(found.profile, rules=rules_of(self._program, notes.line, reads))
        return replace(found, profile=replace(found.profile, given=given, operation_of=operation_of))

    def _require_fits(self) -> None:
        """Writes the folders of programs if the options ask for them.

        Raises: OutOfMemoryException if the programs of an IPU do not fit into its tiles, and their data into streaming memory.
        """
        notes, self._unfit_facts = self._notes, ""
        if not notes.options.allow_out_of_memory and (error := too_large(self.machine, self._program)) is not None:
            self._unfit_facts = error.facts
            _unwritten_sessions.pop(id(self), None)  # nothing of it can be played
            raise out_of_memory(error, summary=error.facts, path="")
        play = self._live
        sources, reports = play.player.programs.sources, ProgramReports(notes.engine)
        found = unfit(play, self.machine, self._program)
        if found is None or notes.options.allow_out_of_memory:
            for key, source in sources.items():
                reports.compiled(source, key)
            return
        self._unfit_facts, source = found.error.facts, sources[found.key]
        ipus = [f"IPU {ipu}: {use.peak_bytes:,} B on the fullest tile" for ipu, use in enumerate(play.uses)]
        path = reports.does_not_fit(source, found.key)
        raise out_of_memory(
            found.error,
            summary="\n".join([*ipus, "", memory_text(*source.detail(), source.machine)]),
            path=path.removesuffix(MEMORY_FILE) + PROGRAM_FILE if path.endswith(MEMORY_FILE) else "",
            first=way_out_of_stash(notes, play, self._program),
        )


_sessions: Final[Announced[Emulation]] = Announced()
_unwritten_sessions: Final[dict[int, Emulation]] = {}  # by identity, in order of their making


def watched_sessions() -> AbstractContextManager[list[Emulation]]:
    """Yields a list that takes up the machine of each session that is made in the block. It stays when a session is gone."""
    return _sessions.heard()


def summary(sessions: list[Emulation]) -> str:
    """The figures of whole sessions as text, each under its name and its machine. One without a program is left out; '' if all are."""
    summaries = [(session, session.final_summary()) for session in sessions]
    return "\n\n".join(f"session '{session.name}' on {session.machine.name}\n{text}" for session, text in summaries if text)


@functools.cache
def _write_at_exit() -> None:
    """Writes all reports when the process ends, before the platform shuts down."""
    initialize()  # which says when that is; what is registered later runs earlier
    atexit.register(_write_all, os.getpid())


def _write_all(process: int) -> None:
    while _unwritten_sessions and os.getpid() == process:  # a fork writes no report
        next(iter(_unwritten_sessions.values())).close()
