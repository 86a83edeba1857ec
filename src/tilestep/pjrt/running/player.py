"""Replays a journal: makes emulated time of it.

A profile that asks for emulated time replays all entries. When many have gathered, those up to the first that would have to wait are.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from tilestep.collection import collection_paused
from tilestep.pjrt.running.entries import Entry, MomentWanted, PlannedRun, RunEntry, Upload, named
from tilestep.pjrt.running.journal import Journal
from tilestep.pjrt.running.recorded_programs import RecordedPrograms
from tilestep.plan.steps import Counts, Program
from tilestep.recording.history import HistoryBegin, begin_history
from tilestep.recording.replay import play
from tilestep.settings import Settings
from tilestep.sim import Mark, System
from tilestep.sim.calls import Copy, Dispatch, Forget, Read, Wait
from tilestep.sim.trace import PipelineTask
from tilestep.tracing.process import current_file


def uninterrupted(work: Callable[[], None]) -> None:
    """Does the work in a thread of its own, because handlers of signals run in the main thread only.

    Raises: the work's exception; else the exception that a handler raised meanwhile, when the work is over.
    """
    over = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    try:
        threading.Thread(target=run, name="tilestep-journal", daemon=True).start()
    except RuntimeError:  # the interpreter is about to end: it starts no more threads
        work()
        return
    interrupt: BaseException | None = None
    while not over.is_set():
        try:
            over.wait()
        except BaseException as error:
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt


_MOST_ORDERED_COPIES = 2**16  # unless a profile asks; JAX copies fewer arrays in one call

FORGOTTEN: list[int] = []  # values whose buffer is gone, of any client; C appends to it
_players: weakref.WeakSet[Player] = weakref.WeakSet()  # all that may know such values
_telling = threading.Lock()  # held while values are taken from FORGOTTEN


def _tell_forgotten() -> None:
    """Tells each player which values' buffers are gone."""
    with _telling:
        gone = FORGOTTEN[:]
        del FORGOTTEN[: len(gone)]  # values that come meanwhile stay
        if gone:
            for player in list(_players):
                player.forget(gone)


class Begin(NamedTuple):
    """The begin of a recording."""

    mark: Mark
    history: HistoryBegin | None  # None: nothing was recorded then


@final
class Player:
    """The emulated system of one platform, to which the journal's events happen.

    Args:
        settings: of the platform.
        record: whether a profile is under way, so that the timeline is kept from the start.
        links: as `record_links`.
        looks: whether the user's lines and the bytes of uploads are looked at while a recording keeps the calls.
        renamed: gives programs the names of a front end.

    Attributes:
        journal: what it plays.
        system: the clocks that it moves.
        programs: that a recording tells of.
        keeps_timeline: whether the timeline is kept until the process ends.
        origin: the platform's begin.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        record: bool = False,
        links: bool = False,
        looks: bool = True,
        renamed: Callable[[PlannedRun], Program] | None = None,
    ) -> None:
        self.settings = settings
        self._renamed = renamed
        self.journal = Journal(functools.partial(self.replay, wait=False), looks=looks)
        self.keeps_timeline = settings.engine.execution_profile or current_file() is not None
        keeps = record or self.keeps_timeline
        self.system = System(settings.machine, record=keeps)
        self.programs = RecordedPrograms(self.system, retains=settings.engine.retain_debug_information)
        self.record_links(links)
        self.origin = Begin(self.system.mark(), begin_history(self.system) if keeps else None)
        self.journal.keep_notes(keeps)
        self._lock = threading.RLock()
        self._is_replaying = False
        self._forgotten: list[int] = []  # values whose buffer is gone, some of other players
        self._next_copy = -1  # numbers of copies that no buffer stands for
        self._ranks: dict[int, int] = {}  # by value that a copy has made: its rank among the values when copies are ordered
        _players.add(self)

    def begin(self) -> Begin:
        """This moment as the begin of a recording; calls are kept from now on. Waits as `mark`."""
        self.journal.keep_notes(True)
        self.replay(wait=True)
        with self._lock, collection_paused():
            return Begin(self.system.mark(), begin_history(self.system))

    def record_links(self, links: bool) -> None:
        """Says whether transfers over host links are events of their own."""
        self.system.record_links = links or self.keeps_timeline

    def stop_recording(self) -> None:
        """Forgets the timeline, the calls, and the sources of the programs that ran, unless the process retains them."""
        self.system.record = False
        self.system.clear_trace()
        self.system.keep_calls(False)
        self.journal.keep_notes(False)
        self.programs.forget()

    def forget(self, values: Sequence[int]) -> None:
        """The buffers of these values are gone. Some are of other players."""
        if self.journal.entries or self._is_replaying:  # which may make one of them
            self._forgotten += values
        else:
            self._forgotten += [value for value in values if self.system.knows(value)]

    def mark(self) -> Mark:
        """This moment, after everything that happened before it. Waits for programs that count as they run."""
        self.replay(wait=True)
        with self._lock, collection_paused():
            return self.system.mark()

    def replay(self, *, wait: bool) -> None:
        """Moves the emulated clocks by the journal's entries. A signal's handler cannot end this half-way.

        Args: wait: whether to wait for programs that count as they run and are not finished. Otherwise the replay stops before the
            first of them.
        """
        if self.journal.entries and threading.current_thread() is threading.main_thread():
            uninterrupted(functools.partial(self._replay, wait=wait))
        else:
            self._replay(wait=wait)

    def _replay(self, *, wait: bool) -> None:
        with self._lock:
            if self._is_replaying:  # a destructor or callback on this thread came here again
                return
            self._is_replaying = True
            try:
                _tell_forgotten()
                forgotten, self._forgotten = self._forgotten, []
                num_gone = len(self.journal.gone)  # their last runs are among the entries
                while isinstance(left := self._play_ready(wait=wait), RunEntry) and wait:
                    self.journal.entries.popleft()
                    self._play(left)  # waits for its counters, and other threads' garbage is collected meanwhile
                if left is not None:
                    self._forgotten[:0] = forgotten
                    return
                for value in self._ranks.keys() & forgotten:
                    del self._ranks[value]
                self.system.forget_known(forgotten)  # others were another player's, or their program failed
                self.system.forget_programs([self.journal.gone.popleft() for _ in range(num_gone)])
            finally:
                self._is_replaying = False

    def _play_ready(self, *, wait: bool) -> RunEntry | Copy | None:
        """Plays entries up to a run that has not counted, or up to copies that may not be all of a call unless `wait`.

        Returns: the entry before which it has stopped; None if there is none.
        """
        entries = self.journal.entries
        with collection_paused():
            while entries:
                match named(entries[0]):
                    case RunEntry() as run if not run.has_counted():
                        return run
                    case Copy() as first:
                        copies = self._copies_ahead()
                        if not wait and len(copies) == len(entries) < _MOST_ORDERED_COPIES:  # copies of the same call may follow
                            return first
                        self._replay_copies(copies)
                    case entry:
                        entries.popleft()
                        self._play(entry)
        return None

    def _copies_ahead(self) -> list[Copy]:
        """The copies that come next in one program group, up to the first that copies a result of another."""
        entries = self.journal.entries
        targets: set[int] = set()
        copies: list[Copy] = []
        for index in range(len(entries)):  # an iterator would fail when another thread appends
            entry = named(entries[index])
            if not isinstance(entry, Copy) or entry.source in targets or (copies and entry.group != copies[0].group):
                break
            targets.add(entry.target)
            copies.append(entry)
        return copies

    def _replay_copies(self, copies: Sequence[Copy]) -> None:
        """Replays copies with nothing between them, in an order that depends on the program alone.

        JAX copies the arrays of one call in the order of a hash table, whose seed differs from process to process. So they happen in the
        order in which their sources were made.
        """
        ranks, entries = self._ranks, self.journal.entries
        in_order = deque(sorted(copies, key=lambda copy: (ranks.get(copy.source, copy.source), copy.ipu, copy.on_host, copy.target)))
        ranks.update(zip((copy.target for copy in in_order), sorted(copy.target for copy in in_order), strict=True))
        for _ in copies:
            entries.popleft()
        try:
            play(self.system, (in_order.popleft() for _ in copies), {})
        finally:
            entries.extendleft((Copy, *copy) for copy in reversed(in_order))

    def _play(self, entry: Entry) -> None:
        match entry:
            case RunEntry():
                self._play_run(entry)
            case MomentWanted(cell):
                cell.append(self.system.moment())
            case Upload(put, begin):
                play(self.system, (put._replace(since=begin[0] if begin else None),), {})
            case Read(value, line):  # JAX waits before it reads, in questions that C cannot note (native/event.c)
                play(self.system, (Wait(value, line), entry), {})
            case _:
                play(self.system, (entry,), {})

    def _play_run(self, run: RunEntry) -> None:
        planned, ipus = run.planned, run.planned.simulated
        self.programs.ran(planned.key, planned.source)
        num_arguments, num_outputs = len(run.arguments) // len(ipus), planned.num_outputs
        arguments = [list(run.arguments[k * num_arguments : (k + 1) * num_arguments]) for k in range(len(ipus))]
        copies: list[Copy] = []
        for row, ipu in zip(arguments, ipus, strict=True):
            for index in run.undonated:
                copies.append(Copy(row[index], self._next_copy, ipu, False, None))
                row[index], self._next_copy = self._next_copy, self._next_copy - 1
        dispatch = Dispatch(
            key=planned.key,
            ipus=planned.ipus,
            arguments=arguments,
            results=[range(run.first + k * num_outputs, run.first + (k + 1) * num_outputs) for k in range(len(ipus))],
            counts=[_counts(planned.counted, run.counters, k) for k in range(len(ipus))],
            group=run.group,
            task=None if run.task is None else PipelineTask(*run.task),
            line=run.line,
        )
        program = planned.program if self._renamed is None else self._renamed(planned)
        play(self.system, (*copies, dispatch, *(Forget(copy.target) for copy in copies)), {planned.key: program})


def _counts(counted: tuple[tuple[int, int], ...], counters: list[list[Any]], position: int) -> Counts:
    try:
        times = [int(np.asarray(column[position]).reshape(-1)[0]) for column in counters]
    except RuntimeError:  # the run failed and counted nothing; reading its results says so
        times = [0] * len(counters)
    return Counts(times=dict(zip(counted, times, strict=True)))
