"""The calls of a session's programs, played on a simulated system of its machine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import jax

from tilestep.pjrt.programs.planning import Planned
from tilestep.plan.steps import Counts
from tilestep.popart.session.emulation.anchors_advice import Returned
from tilestep.popart.session.emulation.arguments import Path
from tilestep.popart.session.emulation.notes import Call, FromHost, Ran, SessionNotes, ToHost, end_of_equal
from tilestep.record.history import HistoryBegin, begin_history
from tilestep.sim import Recurrence, System
from tilestep.sim.trace import Task

_NO_TASK: Final = -1  # stage and microbatch of a run that is no task of a pipeline


@dataclass(frozen=True, kw_only=True)
class SessionProgram:
    """A program of a session.

    Attributes:
        key: its number in the session.
        planned: its plan.
        ipus: that run it.
        kept: position among the program's arguments -> the array that stays on the device.
        replaced: number of a result -> the array that it is from then on.
    """

    key: int
    planned: Planned
    ipus: tuple[int, ...]
    kept: Mapping[int, Path] = field(default_factory=dict[int, Path])
    replaced: Mapping[int, Path] = field(default_factory=dict[int, Path])


@dataclass(kw_only=True)
class Notes(SessionNotes):
    """What a session has done: all that its figures are worked out from.

    Attributes:
        programs: by key.
        arrays: that stay on the device: shape, dtype and sharding.
        returned: the anchors of which each microbatch's value leaves.
        is_loaded: whether programs and arrays are on the device when the session begins.
    """

    programs: dict[int, SessionProgram] = field(default_factory=dict[int, SessionProgram])
    arrays: dict[Path, jax.ShapeDtypeStruct] = field(default_factory=dict[Path, jax.ShapeDtypeStruct])
    returned: tuple[Returned, ...] = ()
    is_loaded: bool = False


@final
class SessionSystem:
    """One session on its machine in virtual time.

    The session's programs are one group, as they are one executable of Poplar's: between them nothing is loaded.

    Attributes:
        system: that the calls are played on.
        played: how many calls of the session it has seen.
    """

    def __init__(self, notes: Notes) -> None:
        self.system = System(notes.machine, record=False)
        self.played = 0
        self._notes = notes
        self._entries = itertools.count(1)
        self._values = itertools.count(1)
        self._kept: dict[Path, tuple[int, ...]] = {}  # array -> its value on each IPU

    def play(self, end: int) -> None:
        """Moves the clocks by the session's calls up to a number, the first being 0."""
        if self._notes.is_loaded and not self._kept:  # a run before the session's begin puts all that it keeps there
            for program in self._notes.programs.values():
                self._run(program, "", next(self._entries))
        calls, number = self._notes.calls, self.played
        while number < end:
            call = calls[number]
            after = end_of_equal(calls, number, end)
            recurrence = Recurrence(self.system)
            while number < after:
                self._call(call)
                number += 1
                number += recurrence.skipped(after - number)
        self.played = max(self.played, end)

    def _call(self, call: Call) -> None:
        match call:
            case Ran(keys=keys, name=name):
                entry = next(self._entries)
                for key in keys:
                    self._run(self._notes.programs[key], name, entry)
            case FromHost(key=key):
                program = self._notes.programs[key]
                self._forget(set(program.kept.values()))
                self._run(program, "", next(self._entries))
            case ToHost(paths=paths):
                for value in [value for path in paths for value in self._kept.get(path, ())]:
                    self.system.read(value)

    def record(self) -> HistoryBegin:
        """Keeps the timeline and the calls from now on. Returns: the history's begin."""
        self.system.record = self.system.record_links = True
        return begin_history(self.system)

    def _run(self, program: SessionProgram, name: str, entry: int) -> None:
        system, planned, ipus = self.system, program.planned.program, program.ipus
        streamed: list[int] = []
        columns: list[tuple[int, ...]] = []
        for position, argument in enumerate(planned.arguments):
            path = program.kept.get(position)
            column = self._kept.get(path) if path is not None else None
            if column is None:
                column = self._put(ipus, argument.size_bytes, on_host=argument.on_host)
            if path is None:
                streamed += column
            else:
                self._kept[path] = column
            columns.append(column)
        results = [tuple(itertools.islice(self._values, len(ipus))) for _ in planned.results]
        system.dispatch(
            planned,
            key=program.key,
            ipus=ipus,
            arguments=_by_ipu(columns, len(ipus)),
            results=_by_ipu(results, len(ipus)),
            counts=[Counts() for _ in ipus],
            group=(self._notes.name, entry),
            task=Task(_NO_TASK, name, _NO_TASK) if name else None,
        )
        self._finish(program, results, streamed)

    def _finish(self, program: SessionProgram, results: Sequence[tuple[int, ...]], streamed: Sequence[int]) -> None:
        """Waits for a run, reads what it gives the host, and forgets what nobody uses any more."""
        system, passing = self.system, list(streamed)
        for number, column in enumerate(results):
            path = program.replaced.get(number)
            if path is not None:
                passing += self._kept.get(path, ())
                self._kept[path] = column
                continue
            for value in column:
                system.read(value)
            passing += column
        for column in results[:1]:  # all results are there at once, also those that the host does not read
            for value in column:
                system.wait(value)
        for value in passing:
            system.forget(value)

    def _forget(self, paths: set[Path]) -> None:
        for path in paths & self._kept.keys():
            for value in self._kept.pop(path):
                self.system.forget(value)

    def _put(self, ipus: Sequence[int], size_bytes: int, *, on_host: bool) -> tuple[int, ...]:
        values = tuple(itertools.islice(self._values, len(ipus)))
        for value, ipu in zip(values, ipus, strict=True):
            self.system.put(value, ipu=ipu, size_bytes=size_bytes, on_host=on_host)
        return values


def _by_ipu(columns: Sequence[tuple[int, ...]], num_ipus: int) -> list[list[int]]:
    """The values of each IPU. Args: columns: of each array the value on each IPU."""
    return [[column[position] for column in columns] for position in range(num_ipus)]
