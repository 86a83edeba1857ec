"""What the host program did to the platform, in order; turned into emulated time later.

The path of a dispatch only appends to a list. Entries are worked off when somebody asks for a profile, or when many have gathered
and nothing in them has to be waited for: emulated time costs nothing where nobody looks.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np

from tilestep import hints
from tilestep.pjrt import _native
from tilestep.pjrt.jax_programs import is_jax_program
from tilestep.pjrt.plugin import PLATFORM
from tilestep.plan.steps import Counts, Program
from tilestep.report import Profile, profile_between
from tilestep.settings import Settings, read_settings
from tilestep.sim import Mark, System

_WORK_OFF_EVERY = 4096  # entries; a bound on the journal's memory, not on what it costs
_COPIES_AT_MOST = 2**16  # that are ordered together, unless somebody asks for a profile; more than JAX is asked for in one call

FORGOTTEN: list[int] = []  # values whose buffer is gone, whatever client it was of; the C side appends


_waits_unseen: ContextVar[bool] = ContextVar("tilestep_waits_unseen", default=False)
waits_unseen: Callable[[], bool] = _waits_unseen.get  # whether who asks for a value's address only waits for it (Journal.waited_for)


class PlannedRun(NamedTuple):
    """A program as emulated time sees it."""

    program: Program
    key: int  # who it is
    ipus: tuple[int, ...]
    num_outputs: int
    counted: tuple[tuple[int, int], ...]  # (site, arm) of each counter


class Noting(Protocol):
    """A device of the platform, as the journal sees it: how C notes what happens to the device's values."""

    note_wait: tuple[Any, ...]
    note_read: tuple[Any, ...]
    note_put: tuple[Any, ...] | None


class Journal:
    """The order of events of one platform, and the system that they happen to."""

    platform = PLATFORM

    def __init__(self, settings: Settings) -> None:
        self.system = System(settings.machine, record=_recordings > 0 or settings.report_directory is not None)
        self.origin = self.system.mark()
        self.keeps_timeline = settings.report_directory is not None  # until the process ends
        self._entries: deque[tuple[Any, ...]] = deque()
        self._append: Callable[[tuple[Any, ...]], None] = self._entries.append
        self.devices: Sequence[Noting] = ()  # whose C side notes what happens
        self._lock = threading.RLock()
        self._working = False
        self.note_wait = (self._wait, self._append)  # how C notes that the host waited for a value
        self.note_read = (self._read, self._append)  # and that it read one
        self.note_put = (self._put, self._append)  # a value from the host
        self.note_run = (self._entries.append, self._run)  # and a run that needs nothing else
        self._work_off_at = _WORK_OFF_EVERY
        self._next_copy = -1  # numbers of copies that no buffer stands for
        self._ranks: dict[int, int] = {}  # of what copies have made: the place in the order in which they were worked off

    # ------------------------------------------------------------------------------------------------ what happens

    def put(self, value: int, ipu: int, size_bytes: int, on_host: bool) -> None:
        """A host array became the value."""
        self._add((self._put, value, ipu, size_bytes, on_host))

    def copy(self, source: int, target: int, ipu: int, on_host: bool) -> None:
        """`target` is a copy of `source` on another IPU or memory."""
        self._add((self._copy, source, target, ipu, on_host, hints.current_group()))

    def read(self, value: int) -> None:
        """The host looked at the value."""
        self._add((self._read, value))

    def run(
        self,
        planned: PlannedRun,
        values: tuple[int, ...],
        first: int,
        counters: list[list[Any]],
        kept: tuple[int, ...],
        done: dict[str, Any],
    ) -> None:
        """A program was dispatched.

        Args: planned: what it is.
        values: the arguments' numbers, IPU by IPU. first: the first result's number; the others follow, IPU by IPU.
        counters: arrays of the program's counters, by counter and IPU. kept: arguments that it was not allowed to take over.
        done: what the dispatch has done; gets "noted".
        """
        _native.once(done, "noted", self._append, (self._run, planned, values, first, counters, kept, hints.current_group()))
        self._work_off_now_and_then()

    def moment(self) -> list[int]:
        """What will hold the host's clock as it is now, once the entries up to here are worked off."""
        cell: list[int] = []
        self._add((self._note_moment, cell))
        return cell

    def upload(self, kept: Sequence[tuple[Any, ...]], moment: Any) -> None:
        """What another thread put before, and kept, happens now, as if begun at `moment`."""
        for _, *what in kept:
            self._add((self._put, *what, moment))

    def waited_for(self, array: Any) -> bool:
        """Waits for an array without JAX's knowledge, who remembers a wait, and tells of no other for that array.

        Returns: False if it is of another platform, or has no value; then JAX says why.
        """
        if any(device.platform != PLATFORM for device in array.devices()):
            return False
        token = _waits_unseen.set(True)
        try:
            for shard in array.addressable_shards:
                shard.data.unsafe_buffer_pointer()
        except RuntimeError:
            return False
        finally:
            _waits_unseen.reset(token)
        return True

    def accumulated(self, batch: hints.EffectiveBatch, steps: int) -> None:
        """A loop that accumulates gradients has done so many steps."""
        self._add((self._note_accumulated, batch, steps))

    def set_apart(self, apart: bool) -> None:
        """From now on some thread's doings are (or no thread's are) to be told apart from the program's: see `hints`."""
        self._append = self._append_if_the_program_s if apart else self._entries.append
        self.note_wait, self.note_read = (self._wait, self._append), (self._read, self._append)
        self.note_put = (self._put, self._append)
        for device in self.devices:
            device.note_wait, device.note_read = self.note_wait, self.note_read
            if device.note_put is not None:
                device.note_put = (*self.note_put, *device.note_put[2:])

    def _append_if_the_program_s(self, entry: tuple[Any, ...]) -> None:
        what = entry[0]
        kept = hints.kept_uploads()
        if kept is not None and what == self._put:
            kept.append(entry)
        elif not (hints.is_aside() and what in (self._wait, self._read)):
            self._entries.append(entry)

    def _add(self, entry: tuple[Any, ...]) -> None:
        self._append(entry)
        self._work_off_now_and_then()

    def _work_off_now_and_then(self) -> None:
        if len(self._entries) >= self._work_off_at:
            self.work_off(wait=False)
            self._work_off_at = len(self._entries) + _WORK_OFF_EVERY

    # ------------------------------------------------------------------------------------------- into emulated time

    def mark(self) -> Mark:
        """This moment, with all that happened before it; waits for programs that count as they run."""
        self.work_off(wait=True)
        with self._lock:
            return self.system.mark()

    def work_off(self, *, wait: bool) -> None:
        """Moves the emulated clocks by what is in the journal.

        Args: wait: also for programs that count as they run and are not finished; otherwise stops before the first of them.
        """
        if self._entries and threading.current_thread() is threading.main_thread():
            _uninterrupted(functools.partial(self._work_off, wait=wait))
        else:
            self._work_off(wait=wait)

    def _work_off(self, *, wait: bool) -> None:
        with self._lock:
            if self._working:  # a destructor or callback on this thread came here again
                return
            self._working = True
            try:
                forgotten, FORGOTTEN[:] = list(FORGOTTEN), []
                while self._entries:
                    entry = self._entries[0]
                    if not wait and entry[0] == self._run and not _counted(entry[4]):
                        FORGOTTEN[:0] = forgotten
                        return
                    if entry[0] == self._copy:
                        copies = self._copies_ahead()
                        if not wait and len(copies) == len(self._entries) < _COPIES_AT_MOST:  # more may come that belong to them
                            FORGOTTEN[:0] = forgotten
                            return
                        self._work_off_copies(copies)
                        continue
                    self._entries.popleft()
                    entry[0](*entry[1:])
                for value in forgotten:
                    self._ranks.pop(value, None)
                    if self.system.knows(value):  # else it was another client's, or its program failed
                        self.system.forget(value)
            finally:
                self._working = False

    def _copies_ahead(self) -> list[tuple[Any, ...]]:
        """The copies that come next, in one program group, up to the first that is a copy of one of them."""
        made: set[int] = set()
        found: list[tuple[Any, ...]] = []
        for place in range(len(self._entries)):  # no iterator, which breaks when another thread appends
            entry = self._entries[place]
            if entry[0] != self._copy or entry[1] in made or (found and entry[5] != found[0][5]):
                break
            made.add(entry[2])
            found.append(entry)
        return found

    def _work_off_copies(self, copies: Sequence[tuple[Any, ...]]) -> None:
        """Copies with nothing between them, in an order that hangs on the program alone.

        Many arrays that JAX is asked for in one call it copies in the order of a hash table, whose seed is another in each process. So they
        happen in the order in which what they copy was made.
        """
        ranks = self._ranks
        in_order = deque(sorted(copies, key=lambda entry: (ranks.get(entry[1], entry[1]), entry[3], entry[4], entry[2])))
        ranks.update(zip((entry[2] for entry in in_order), sorted(entry[2] for entry in in_order), strict=True))
        for _ in copies:
            self._entries.popleft()
        try:
            while in_order:
                entry = in_order.popleft()
                entry[0](*entry[1:])
        finally:
            self._entries.extendleft(reversed(in_order))

    def _put(self, value: int, ipu: int, size_bytes: int, on_host: bool, since: list[int] | None = None) -> None:
        self.system.put(value, ipu=ipu, size_bytes=size_bytes, on_host=on_host, since=since[0] if since else None)

    def _note_moment(self, cell: list[int]) -> None:
        cell.append(self.system.host_cycle)

    def _note_accumulated(self, batch: hints.EffectiveBatch, steps: int) -> None:
        self.system.accumulated(batch, steps)

    def _copy(self, source: int, target: int, ipu: int, on_host: bool, group: tuple[str, int] | None) -> None:
        self.system.copy(source, target, ipu=ipu, on_host=on_host, group=group)

    def _read(self, value: int) -> None:
        self.system.wait(value)  # for which JAX asks where nothing can be noted (native/event.c)
        self.system.read(value)

    def _wait(self, value: int) -> None:
        self.system.wait(value)

    def _run(
        self,
        planned: PlannedRun,
        values: tuple[int, ...],
        first: int,
        counters: list[list[Any]],
        kept: tuple[int, ...],
        group: tuple[str, int] | None,
    ) -> None:
        ipus = planned.ipus
        per_ipu = len(values) // len(ipus)
        arguments = [list(values[k * per_ipu : (k + 1) * per_ipu]) for k in range(len(ipus))]
        copies: list[int] = []
        for row, ipu in zip(arguments, ipus, strict=True):
            for index in kept:
                copies.append(self._next_copy)
                self.system.copy(row[index], self._next_copy, ipu=ipu, on_host=False)
                row[index], self._next_copy = self._next_copy, self._next_copy - 1
        outputs = planned.num_outputs
        self.system.dispatch(
            planned.program,
            key=planned.key,
            ipus=ipus,
            arguments=arguments,
            results=[range(first + k * outputs, first + (k + 1) * outputs) for k in range(len(ipus))],
            counts=[_counts(planned.counted, counters, k) for k in range(len(ipus))],
            group=group,
        )
        for copy in copies:
            self.system.forget(copy)


_recordings = 0  # profiles that are under way; the timeline is kept only for them
_current: Journal | None = None  # of the platform, once it has started


def use(journal: Journal) -> None:
    """Makes `journal` the one that profiles are taken from."""
    global _current
    _current = journal
    hints.listen(journal)


@contextlib.contextmanager
def recording() -> Iterator[Callable[[], Profile]]:
    """Keeps the timeline inside the block; what it yields gives the profile from the block's begin to now.

    The platform need not have started: then the profile begins where it starts, and is empty if it never does.
    """
    global _recordings
    begun = _current
    start = None if begun is None else begun.mark()
    _recordings += 1
    if begun is not None:
        begun.system.record = True

    def measure() -> Profile:
        journal = _current
        if journal is None:
            idle = System(read_settings().machine, record=False)
            return profile_between(idle, idle.mark(), idle.mark())
        end = journal.mark()
        begin = start if start is not None and journal is begun else journal.origin
        return profile_between(journal.system, begin, end, of_jax=is_jax_program)

    try:
        yield measure
    finally:
        _recordings -= 1
        if not _recordings and _current is not None and not _current.keeps_timeline:
            _current.system.record = False
            _current.system.clear_trace()


def _uninterrupted(work: Callable[[], None]) -> None:
    """Does it in a thread of its own, where no handler of a signal raises anything: what was half done would be wrong for good.

    Raises: what the work raises; else what a handler has raised meanwhile, when it is over.
    """
    over = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)
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
    if raised:
        raise raised[0]
    if interrupt is not None:
        raise interrupt


def _counted(counters: list[list[Any]]) -> bool:
    return all(array.is_ready() for column in counters for array in column[:1])


def _counts(counted: tuple[tuple[int, int], ...], counters: list[list[Any]], position: int) -> Counts:
    try:
        times = [int(np.asarray(column[position]).reshape(-1)[0]) for column in counters]
    except RuntimeError:  # the run failed, which whoever reads its results is told; it counted nothing
        times = [0] * len(counters)
    return Counts(times=dict(zip(counted, times, strict=True)))
