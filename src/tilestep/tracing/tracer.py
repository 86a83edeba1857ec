"""The tracer of a process: fetches what was recorded, from time to time into pieces on the disk, and at the end into one file."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import jax

from tilestep.errors import RecordingError
from tilestep.messages import plain
from tilestep.recording.storage.container import Builder
from tilestep.tracing import logs
from tilestep.tracing.channels import POPLAR, is_channel_enabled, set_traced
from tilestep.tracing.follower import Follower
from tilestep.tracing.options import VARIABLE, TraceOptions
from tilestep.tracing.pieces import TracePieces
from tilestep.tracing.table import TraceTable

_TICK_WALL_S: Final = 0.25
_MOST_ROWS: Final = 3_000_000
_MOST_LABEL_BYTES: Final = 32 * 2**20
_MOST_NOTES: Final = 100
_ANNOTATION: Any = jax.profiler.TraceAnnotation  # JAX tells no types of it

Add = Callable[[Builder], None]


@final
class Tracer:
    """Traces this process from `start` to `finish`.

    Args:
        options: of the trace.
        follows_jax: whether sessions of JAX's profiler are used, too.
    """

    def __init__(self, options: TraceOptions, *, follows_jax: bool) -> None:
        self._options, self._begin_ns = options, time.time_ns()
        self._pieces = TracePieces(Path(options.directory).absolute(), self._begin_ns)
        self._logs = logs.Logs(self._full)
        self._follower = Follower(self._jax_is_followed) if follows_jax else None
        self._away_ns: int | None = None  # since when the program takes a profile of its own
        self._rows = self._label_bytes = 0
        self._threads: dict[int, tuple[int, str]] = {}  # by Python's ident: tid and name of threads that were seen, though they have ended
        self._notes: list[str] = []
        self._adds: list[Add] = []
        self._shows_emulated = False
        self._lock = threading.RLock()  # guards everything but the logs
        self._is_writing = self._is_over = False  # the latter: nothing is recorded any more
        self._wake, self._is_ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> Path:
        """The file of this process, which is there when the trace is closed."""
        return self._pieces.path

    def start(self) -> None:
        """Everything is recorded from now on."""
        set_traced(self._options.wants)
        self._logs.annotation = _ANNOTATION
        logs.current = self._logs
        if self._follower is not None:
            self._follower.guard()
            self._follower.tend()
        self.start_thread()

    def include(self, add: Add) -> None:
        """Lets `add` add further tables to the file when it is written, if channel Poplar is on then."""
        self._adds.append(add)

    def finish(self) -> None:
        """Nothing is recorded any more, and the file is written. A file that cannot be written is told on stderr."""
        self.stop_thread()
        with self._lock:
            self._end_recording()
            if self._follower is not None:
                self._follower.unguard()
            table = self._pieces.new_table()
            self._fetch(table)
            try:
                self._pieces.finish(table, self._all_notes(), self._add_all if self._shows_emulated and self._adds else None)
            except (OSError, RecordingError) as error:
                tell(f"{VARIABLE}: {_reason(error)}")

    def start_thread(self) -> None:
        """Starts the thread that writes pieces."""
        if not self._is_over:
            self._is_ending.clear()
            self._thread = threading.Thread(target=self._work, name="tilestep-trace", daemon=True)
            self._thread.start()

    def stop_thread(self) -> None:
        """Ends that thread."""
        self._is_ending.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def before_fork(self) -> None:
        """Ends the thread and the session, of which a fork would have a part."""
        self.stop_thread()
        self._lock.acquire()
        if self._follower is not None:
            self._follower.stop()

    def after_fork_in_parent(self) -> None:
        """Goes on."""
        if self._follower is not None and not self._is_over:
            self._follower.tend()
        self._lock.release()
        self.start_thread()

    def abandon(self) -> None:
        """Forgets everything, because this process shall not be traced, or is a fork. JAX's functions are as they were."""
        logs.current = None
        set_traced(None)
        if self._follower is not None:
            self._follower.unguard()

    def remove_pieces(self) -> None:
        self._pieces.remove()

    # ------------------------------------------------------------------------------------------------ the tracer's thread

    def _work(self) -> None:
        while not self._is_ending.is_set():
            self._wake.wait(_TICK_WALL_S)
            self._wake.clear()
            if self._is_ending.is_set():
                return
            with self._lock:
                if 0 < self._options.duration_wall_s <= (time.time_ns() - self._begin_ns) / 1e9:
                    self._end_recording()
                    return
                self._threads |= self._logs.threads()
                if self._follower is not None:
                    self._follower.tend()
                if self._logs.much_waits or (self._follower is not None and self._follower.is_due):
                    self._write_piece()

    def _full(self, must_wait: bool) -> None:
        if must_wait:
            self._write_piece()
        else:
            self._wake.set()

    def _write_piece(self) -> None:
        with self._lock:
            if self._is_writing or self._is_over:  # the former: Python ran code of the program in this thread meanwhile
                return
            self._is_writing = True
            try:
                self._pieces.write(self._fetched_piece(), self._all_notes())
                if self._rows > _MOST_ROWS or self._label_bytes > _MOST_LABEL_BYTES:
                    self._end_recording()
                    self._say(f"it had more than {_MOST_ROWS:,} rows or {_MOST_LABEL_BYTES:,} B of labels: choose channels or a duration")
            except (OSError, RecordingError) as error:
                self._end_recording()
                self._say(_reason(error))
            finally:
                self._is_writing = False

    def _fetched_piece(self) -> TraceTable:
        table = self._pieces.new_table()
        if self._follower is not None and self._follower.is_due:
            self._follower.next_session()
        self._fetch(table)
        self._rows, self._label_bytes = self._rows + table.rows, self._label_bytes + table.label_bytes
        return table

    # -------------------------------------------------------------------------------------------------------------- parts

    def _fetch(self, table: TraceTable) -> None:
        self._threads |= self._logs.threads()
        if self._follower is not None:
            self._follower.fetch(table, self._threads)
        table.add_taken(self._logs.take())

    def _end_recording(self) -> None:
        """Nothing is recorded any more. What waits to be fetched stays."""
        if self._is_over:
            return
        self._is_over, self._shows_emulated = True, is_channel_enabled(POPLAR)
        logs.current = None
        set_traced(None)
        self._logs.end_open(time.time_ns())
        if self._follower is not None:
            self._follower.stop()

    def _add_all(self, builder: Builder) -> None:
        for add in self._adds:
            add(builder)

    def _jax_is_followed(self, is_followed: bool, now_ns: int) -> None:
        self._logs.annotation = None if is_followed else _ANNOTATION
        if not is_followed:
            self._away_ns = now_ns
        elif self._away_ns is not None:
            self._notes.append(self._away(self._away_ns, now_ns))
            self._away_ns = None

    def _away(self, since_ns: int, until_ns: int) -> str:
        since_s, until_s = (since_ns - self._begin_ns) / 1e9, (until_ns - self._begin_ns) / 1e9
        return f"from {since_s:.3f} s to {until_s:.3f} s JAX's threads are missing, because the program took a profile with jax.profiler"

    def _all_notes(self) -> list[str]:
        notes = [*self._notes, *([] if self._away_ns is None else [self._away(self._away_ns, time.time_ns())])]
        if self._follower is not None and self._follower.unseen_ns:
            unseen_s = self._follower.unseen_ns / 1e9
            notes.append(
                f"JAX's threads are missing for {unseen_s:.3f} s in all, in which JAX's profiler ended one session and began the next"
            )
        return [*notes[:_MOST_NOTES], *([f"and {len(notes) - _MOST_NOTES:,} more notes"] if len(notes) > _MOST_NOTES else [])]

    def _say(self, reason: str) -> None:
        line = f"the trace ends {(time.time_ns() - self._begin_ns) / 1e9:.1f} s after its begin: {reason}"
        self._notes.append(line)
        tell(f"{VARIABLE}: {line}")


def tell(line: str) -> None:
    """Prints a line to stderr, if there is one."""
    if sys.stderr is not None:  # a process may have none
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or the program has closed it
            print(f"tilestep: {line}", file=sys.stderr)


def _reason(error: OSError | RecordingError) -> str:
    return f"{plain(error.filename)} cannot be written: {error.strerror}" if isinstance(error, OSError) else plain(error)
