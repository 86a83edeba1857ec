"""The plays of a session: what its figures and reports are worked out from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import final

from tilestep.advice import advice
from tilestep.errors import RecordingError
from tilestep.figures.file_names import MEMORY_FILE, PAGE_FILE, PROGRAM_FILE
from tilestep.files import filled_directory
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.session.emulation.advice import WeightReads, rules_of
from tilestep.popart.session.emulation.advice_words import operation_of
from tilestep.popart.session.emulation.memory import out_of_memory, too_large, unfit, way_out_of_stash
from tilestep.popart.session.emulation.notes import Notes, Ran, ToHost
from tilestep.popart.session.emulation.play import Play, Spent, no_run
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.profiling.measurement import Measurement, measurement_of
from tilestep.profiling.program_reports import ProgramReports
from tilestep.recording.tables import Tables
from tilestep.sim import TileUse
from tilestep.views.files import tell_unwritten, unwritten, write_report
from tilestep.views.memory import memory_text


def tables_of(measurement: Measurement) -> Tables:
    """The recording of a measurement, with what its options ask for, and at least all that a reader needs."""
    return measurement.recording(lines=True, hlo=measurement.engine.serialized_graph)


def write_programs(notes: Notes, sources: Mapping[int, ProgramSource]) -> None:
    """Writes the folders of programs if the options ask for them. Args: sources: what they were planned from, by key."""
    reports = ProgramReports(notes.engine)
    for key, source in sources.items():
        reports.compiled(source, key)


def write_unfit(notes: Notes, key: int, source: ProgramSource) -> str:
    """Writes the folder of a program that does not fit, if there is a place for reports.

    Returns: the path of its recording; '' if there is no place, or none can be written.
    """
    path = ProgramReports(notes.engine).does_not_fit(source, key)
    return path.removesuffix(MEMORY_FILE) + PROGRAM_FILE if path.endswith(MEMORY_FILE) else ""


def write_session(notes: Notes, measured: Callable[[], Measurement]) -> None:
    """Writes the recording, the profile and its summary if the options ask for them. A file that cannot be written is a line on stderr.

    Args: measured: what the session did; asked only if something is written.
    """
    engine = notes.engine
    if engine.directory is None or not engine.execution_profile:
        return
    measurement = measured()
    try:
        recording = measurement.recording(lines=engine.debug_info, hlo=engine.serialized_graph, memory=engine.graph_profile)
        with filled_directory(engine.directory) as directory:
            without_page = write_report(measurement.profile, directory, recording=recording, lines=not engine.hides_lines)
        tell_unwritten(without_page)
        notes.page = None if without_page else engine.directory / PAGE_FILE
    except (OSError, RecordingError) as error:
        tell_unwritten(unwritten(error))


@final
class Plays:
    """The plays of one session: one whose timeline is kept, for reports, and one without, for cycles. Each is made when it is needed.

    The one that has shown whether the session fits has seen no call yet: it becomes the one that is needed first.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.name, self.machine = notes.name, notes.machine
        self._is_open = bool(notes.profile_path)
        self._lacks = ""  # what a program that does not fit needs

    @functools.cached_property
    def live(self) -> Play:
        """The play without a timeline."""
        return Play(self._notes, self.program)

    @functools.cached_property
    def _recorded(self) -> Play:
        play = vars(self).get("live")
        if play is None or play.played:
            play = Play(self._notes, self.program)
        else:
            del self.live
        play.record()
        return play

    @property
    def uses(self) -> tuple[TileUse, ...]:
        """Of each IPU, bytes on its fullest tile."""
        play = vars(self).get("_recorded")
        return (self.live if play is None else play).uses

    @property
    def program(self) -> EmulatedProgram:
        """What the session runs. Raises: popart_runtime_error if it has not been prepared."""
        program = self._notes.program
        if program is None:
            raise popart_runtime_error("The session has not been prepared: call session.prepareDevice() first")
        return program

    def forget(self) -> None:
        """Forgets all plays: the session has another program."""
        for name in ("live", "_recorded"):
            vars(self).pop(name, None)

    def last(self) -> Spent:
        """What the last call of the program took. Raises: popart_runtime_error if nothing ran."""
        calls = self._notes.calls
        if not any(isinstance(call, Ran) for call in calls):
            raise no_run()
        self.live.play(len(calls))
        assert self.live.last is not None  # there was a call
        return self.live.last

    def measured(self, *, whole: bool = False) -> Measurement:
        """What the session did. Args: whole: whether to count all calls, also those before a reset of the profile."""
        notes, play = self._notes, self._recorded
        play.play(len(notes.calls))
        player, begin = play.player, play.begin(0 if whole else notes.first)
        counted = notes.calls[0 if whole else notes.first :]
        rules = rules_of(self.program, notes.line, WeightReads(sum(isinstance(call, ToHost) for call in counted), notes.reads_at))
        found = measurement_of(player.system, begin, player.mark(), notes.engine, dict(player.programs.sources))
        return replace(found, profile=replace(found.profile, given=advice(found.profile, rules=rules), operation_of=operation_of))

    def summary(self) -> str:
        """The figures of the whole session as text; '' if it was not prepared."""
        if self._lacks and not self._notes.calls:
            return f"tilestep: does not fit: {self._lacks}"
        return "" if self._notes.program is None else self.measured(whole=True).profile.summary()

    def require_fits(self) -> None:
        """Raises: OutOfMemoryException if the programs of an IPU do not fit into its tiles, and their data into streaming memory."""
        notes, self._lacks = self._notes, ""
        if not notes.options.allow_out_of_memory and (error := too_large(self.machine, self.program)) is not None:
            self._lacks, self._is_open = error.facts, False  # nothing of it can be played
            raise out_of_memory(error, summary=error.facts, path="")
        play = self.live
        sources = play.player.programs.sources
        found = unfit(play, self.machine, self.program)
        if found is None or notes.options.allow_out_of_memory:
            write_programs(notes, sources)
            return
        self._lacks, source = found.error.facts, sources[found.key]
        raise out_of_memory(
            found.error,
            summary=self._memory(source),
            path=write_unfit(notes, found.key, source),
            first=way_out_of_stash(notes, play, self.program),
        )

    def _memory(self, source: ProgramSource) -> str:
        """Of each IPU its fullest tile, and the memory of a program."""
        ipus = [f"IPU {ipu}: {use.peak_bytes:,} B on the fullest tile" for ipu, use in enumerate(self.uses)]
        return "\n".join([*ipus, "", memory_text(*source.detail(), source.machine)])

    @property
    def page(self) -> Path | None:
        """The page of the report, once it is written."""
        return self._notes.page

    def close(self) -> None:
        """Writes the report that the options ask for, once. What cannot be written is a line on stderr."""
        if self._is_open and self._notes.program is not None:
            self._is_open = False
            write_session(self._notes, self.measured)
