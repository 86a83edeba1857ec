"""The journal: the actions of the host program on the platform, in order. They become emulated time later.

A dispatch only appends an entry. Entries are replayed when a profile asks for emulated time. They are also replayed when many have
gathered, up to the first that would have to wait. So emulated time costs nothing where nobody looks.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tilestep import hints
from tilestep.pjrt import _native
from tilestep.pjrt.platform import PLATFORM
from tilestep.pjrt.running.entries import Accumulated, Copy, Entry, Moment, PlannedRun, Put, RawEntry, Read, Run, Wait, named, raw
from tilestep.pjrt.running.host_notes import Contents, current_line
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.pjrt.running.uninterrupted import uninterrupted
from tilestep.pjrt.running.unseen_waits import wait_unseen
from tilestep.plan.steps import Counts, Program
from tilestep.record.history import HistoryBegin, begin_history
from tilestep.settings import Settings
from tilestep.sim import Mark, System
from tilestep.sim.calls import Moment as SimMoment
from tilestep.sim.trace import Task
from tilestep.tracing.process import current_file

_MOST_REFUSED = 20  # programs that did not fit, of a recording
_REPLAY_EVERY = 4096  # entries; bounds the journal's memory, not its time
_BEGIN = 1 + Put._fields.index("begin")  # in a raw entry
_MOST_COPIES = 2**16  # that are ordered together, unless a profile asks; JAX copies fewer arrays in one call

FORGOTTEN: list[int] = []  # values whose buffer is gone, of any client; C appends to it
_journals: weakref.WeakSet[Journal] = weakref.WeakSet()  # all that may know such values
_telling = threading.Lock()  # held while values are taken from FORGOTTEN


def _tell_forgotten() -> None:
    """Tells each journal which values' buffers are gone."""
    with _telling:
        gone = FORGOTTEN[:]
        del FORGOTTEN[: len(gone)]  # what comes meanwhile stays
        if gone:
            for journal in list(_journals):
                journal.forget(gone)


class Begin(NamedTuple):
    """The begin of a recording."""

    mark: Mark
    history: HistoryBegin | None  # None: nothing was recorded then


class EventSource(Protocol):
    """A device of the platform as the journal sees it: the type and the function with which C appends entries about its values."""

    note_wait: tuple[Any, ...]
    note_read: tuple[Any, ...]
    note_put: tuple[Any, ...] | None


class Journal:
    """The order of events of one platform, and the emulated system that they happen to.

    Attributes: note_wait, note_read, note_put: (type of entry, function that appends it), for C. note_run: the same in the other order.
    """

    platform = PLATFORM

    def __init__(self, settings: Settings, *, record: bool = False, links: bool = False, looks: bool = True) -> None:
        """Args: record: whether a profile is under way, so that the timeline is kept from the start. links: as `record_links`.
        looks: whether the user's lines and the bytes of uploads are looked at while a recording keeps the calls.
        """
        self.settings = settings
        self._looks = looks
        self.keeps_timeline = settings.engine.execution_profile or current_file() is not None  # until the process ends
        self.system = System(settings.machine, record=record or self.keeps_timeline)
        self.record_links(links)
        keeps = record or self.keeps_timeline
        self.origin = Begin(self.system.mark(), begin_history(self.system) if keeps else None)
        self._entries: deque[RawEntry] = deque()
        self._append: Callable[[RawEntry], None] = self._entries.append
        self.devices: Sequence[EventSource] = ()
        self._retains = settings.engine.retain_debug_information
        # of the programs that ran while a recording was under way, by key; else of all that were compiled
        self.sources: dict[int, ProgramSource] = {}
        self.refused: dict[int, ProgramSource] = {}  # programs that did not fit while a recording was under way, by key
        self._lock = threading.RLock()
        self._is_replaying = False
        self._forgotten: list[int] = []  # values whose buffer is gone, some of other journals
        self.note_wait: tuple[Any, ...] = (Wait, self._append)
        self.note_read: tuple[Any, ...] = (Read, self._append)
        self.note_put: tuple[Any, ...] = (Put, self._append)
        self.note_run = (self._entries.append, Run)
        self.contents: Contents | None = None  # of uploads, while a recording keeps the calls
        self._keep_notes(keeps)
        self._replay_at = _REPLAY_EVERY
        self.said: Callable[[PlannedRun], Program] | None = None  # programs under the names that a front end gives them
        self.dry_cycles = 0  # of all dry runs, for their bound
        self._next_copy = -1  # numbers of copies that no buffer stands for
        self._ranks: dict[int, int] = {}  # by value that a copy has made: its rank among the values when copies are ordered
        _journals.add(self)

    # ------------------------------------------------------------------------------------------------ what happens

    def compiled(self, key: int, source: ProgramSource) -> None:
        """A program was compiled, or loaded. Its source stays if debug.retainDebugInformation asks for that."""
        if self._retains:
            self.sources[key] = source

    def does_not_fit(self, key: int, source: ProgramSource) -> None:
        """A program was refused, so it never runs. A recording says so."""
        if self.system.log is not None and len(self.refused) < _MOST_REFUSED:
            self.refused[key] = source

    def put(self, value: int, ipu: int, size_bytes: int, on_host: bool, contents: int = 0) -> None:
        """A host array became the value. Args: contents: number of its bytes, equal for equal bytes; 0: unknown."""
        self._add((Put, value, ipu, size_bytes, on_host, None, contents))

    def copy(self, source: int, target: int, ipu: int, on_host: bool) -> None:
        """`target` is a copy of `source` on another IPU or memory."""
        self._add((Copy, source, target, ipu, on_host, hints.current_group()))

    def read(self, value: int) -> None:
        """The host looked at the value."""
        self._add((Read, value, current_line() if self.contents else None))

    def run(
        self,
        planned: PlannedRun,
        values: tuple[int, ...],
        first: int,
        counters: list[list[Any]],
        undonated: tuple[int, ...],
        done: dict[str, Any],
    ) -> None:
        """A program was dispatched.

        Args: planned, values, first, counters, undonated: the fields of `Run`. done: what the dispatch has done; gets "noted".
        """
        line = current_line() if self.contents else None
        entry = (Run, planned, values, first, counters, undonated, hints.current_group(), hints.current_task(), line)
        _native.once(done, "noted", self._append, entry)
        self._replay_now_and_then()

    def moment(self) -> list[SimMoment]:
        """A cell that will hold this moment, once the entries up to here are replayed."""
        cell: list[SimMoment] = []
        self._add((Moment, cell))
        return cell

    def upload(self, kept: Sequence[RawEntry], moment: Any) -> None:
        """The `Put`s that another thread made and kept happen now, as if begun at `moment`."""
        for entry in kept:
            self._add((*entry[:_BEGIN], moment, *entry[_BEGIN + 1 :]))

    def waited_for(self, array: Any) -> bool:
        """Waits without telling JAX, because JAX remembers that it has waited and would not report the user's own later wait.

        Returns: False if the array is of another platform or has no value; then JAX's own wait says why.
        """
        return wait_unseen(array)

    def accumulated(self, batch: hints.EffectiveBatch, steps: int) -> None:
        """A loop that accumulates gradients has done so many steps."""
        self._add((Accumulated, batch, steps))

    def set_apart(self, apart: bool) -> None:
        """From now on some thread's events (or no thread's) differ from the program's own: see `hints`."""
        self._append = self._append_if_timed if apart else self._entries.append
        self._choose_notes()

    def _choose_notes(self) -> None:
        """Tells C how it appends entries from now on."""
        self.note_wait = Wait, self._append if self.contents is None else self._append_with_line
        self.note_read, self.note_put = (Read, self._append), (Put, self._append)
        for device in self.devices:
            device.note_wait, device.note_read = self.note_wait, self.note_read
            if device.note_put is not None:
                device.note_put = (*self.note_put, *device.note_put[2:])

    def _append_with_line(self, entry: RawEntry) -> None:
        self._append((*entry, current_line()))

    def _append_if_timed(self, entry: RawEntry) -> None:
        kind = entry[0]
        kept = hints.kept_uploads()
        if kept is not None and kind is Put:
            kept.append(entry)
        elif not (hints.is_untimed() and kind in (Wait, Read)):
            self._entries.append(entry)

    def _add(self, entry: RawEntry) -> None:
        self._append(entry)
        self._replay_now_and_then()

    def _replay_now_and_then(self) -> None:
        if len(self._entries) >= self._replay_at:
            self.replay(wait=False)
            self._replay_at = len(self._entries) + _REPLAY_EVERY

    # ------------------------------------------------------------------------------------------- into emulated time

    def begin(self) -> Begin:
        """This moment as the begin of a recording; calls are kept from now on. Waits as `mark`."""
        self._keep_notes(True)
        self.replay(wait=True)
        with self._lock:
            return Begin(self.system.mark(), begin_history(self.system))

    def _keep_notes(self, keep: bool) -> None:
        """Says whether the user's lines and the bytes of uploads are looked at from now on. The short ways of C leave them out."""
        if self._looks:
            _native.set_watched(keep)
            self.contents = Contents() if keep else None
        self._choose_notes()

    def record_links(self, links: bool) -> None:
        """Says whether transfers over host links are events of their own."""
        self.system.record_links = links or self.keeps_timeline

    def stop_recording(self) -> None:
        """Forgets the timeline, the calls, and the sources of the programs that ran, unless the process retains them."""
        self.system.record = False
        self.system.clear_trace()
        self.system.keep_calls(False)
        self._keep_notes(False)
        self.refused.clear()
        if not self._retains:
            self.sources.clear()

    def forget(self, values: Sequence[int]) -> None:
        """The buffers of these values are gone. Some are of other journals."""
        if self._entries or self._is_replaying:  # which may make one of them
            self._forgotten += values
        else:
            self._forgotten += [value for value in values if self.system.knows(value)]

    def mark(self) -> Mark:
        """This moment, after everything that happened before it. Waits for programs that count as they run."""
        self.replay(wait=True)
        with self._lock:
            return self.system.mark()

    def replay(self, *, wait: bool) -> None:
        """Moves the emulated clocks by the journal's entries. A signal's handler cannot end this half-way.

        Args: wait: whether to wait for programs that count as they run and are not finished. Otherwise the replay stops before the
            first of them.
        """
        if self._entries and threading.current_thread() is threading.main_thread():
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
                while self._entries:
                    match named(self._entries[0]):
                        case Run() as run if not wait and not run.has_counted():
                            self._forgotten[:0] = forgotten
                            return
                        case Copy():
                            copies = self._copies_ahead()
                            if not wait and len(copies) == len(self._entries) < _MOST_COPIES:  # copies of the same call may follow
                                self._forgotten[:0] = forgotten
                                return
                            self._replay_copies(copies)
                        case entry:
                            self._entries.popleft()
                            self._play(entry)
                if self.system.log is not None:
                    self.system.log.note_line(None)
                for value in forgotten:
                    self._ranks.pop(value, None)
                    if self.system.knows(value):  # else it was another journal's, or its program failed
                        self.system.forget(value)
            finally:
                self._is_replaying = False

    def _copies_ahead(self) -> list[Copy]:
        """The copies that come next in one program group, up to the first that copies a result of another."""
        targets: set[int] = set()
        copies: list[Copy] = []
        for index in range(len(self._entries)):  # an iterator would fail when another thread appends
            entry = named(self._entries[index])
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
        ranks = self._ranks
        in_order = deque(sorted(copies, key=lambda copy: (ranks.get(copy.source, copy.source), copy.ipu, copy.on_host, copy.target)))
        ranks.update(zip((copy.target for copy in in_order), sorted(copy.target for copy in in_order), strict=True))
        for _ in copies:
            self._entries.popleft()
        try:
            while in_order:
                self._play(in_order.popleft())
        finally:
            self._entries.extendleft(raw(copy) for copy in reversed(in_order))

    def _play(self, entry: Entry) -> None:
        log = self.system.log
        if log is None:
            self._play_unnoted(entry)
            return
        match entry:
            case Run() | Read() | Wait():
                log.note_line(entry.line)
            case Put():
                log.note_contents(entry.contents)
            case _:
                log.note_line(None)
        self._play_unnoted(entry)

    def _play_unnoted(self, entry: Entry) -> None:
        match entry:
            case Put():
                begin = entry.begin[0] if entry.begin else None
                self.system.put(entry.value, ipu=entry.ipu, size_bytes=entry.size_bytes, on_host=entry.on_host, since=begin)
            case Copy():
                self.system.copy(entry.source, entry.target, ipu=entry.ipu, on_host=entry.on_host, group=entry.group)
            case Read():
                self.system.wait(entry.value)  # JAX waits before it reads, in questions that C cannot note (native/event.c)
                self.system.read(entry.value)
            case Wait():
                self.system.wait(entry.value)
            case Run():
                self._play_run(entry)
            case Moment():
                entry.cell.append(self.system.moment())
            case Accumulated():
                self.system.accumulated(entry.batch, entry.steps)

    def _play_run(self, run: Run) -> None:
        planned, ipus = run.planned, run.planned.ipus
        if self.system.log is not None:
            self.sources[planned.key] = planned.source
        num_arguments, num_outputs = len(run.arguments) // len(ipus), planned.num_outputs
        arguments = [list(run.arguments[k * num_arguments : (k + 1) * num_arguments]) for k in range(len(ipus))]
        copies: list[int] = []
        for row, ipu in zip(arguments, ipus, strict=True):
            for index in run.undonated:
                copies.append(self._next_copy)
                self.system.copy(row[index], self._next_copy, ipu=ipu, on_host=False)
                row[index], self._next_copy = self._next_copy, self._next_copy - 1
        self.system.dispatch(
            planned.program if self.said is None else self.said(planned),
            key=planned.key,
            ipus=ipus,
            arguments=arguments,
            results=[range(run.first + k * num_outputs, run.first + (k + 1) * num_outputs) for k in range(len(ipus))],
            counts=[_counts(planned.counted, run.counters, k) for k in range(len(ipus))],
            group=run.group,
            task=None if run.task is None else Task(*run.task),
        )
        for copy in copies:
            self.system.forget(copy)


def _counts(counted: tuple[tuple[int, int], ...], counters: list[list[Any]], position: int) -> Counts:
    try:
        times = [int(np.asarray(column[position]).reshape(-1)[0]) for column in counters]
    except RuntimeError:  # the run failed and counted nothing; reading its results says so
        times = [0] * len(counters)
    return Counts(times=dict(zip(counted, times, strict=True)))
