"""A pool of threads that wait for events on behalf of JAX."""

import contextlib
import threading
import time
from collections.abc import Iterator

from tilestep.pjrt import _native

_MOST_THREADS = 256  # each may wait for a program that itself waits for another thread's event
_LOOK_EVERY_WALL_S = 0.001


class WaitPool:
    """A pool that grows when all its threads wait, so that one slow event holds up no other. The threads run in C (native/wait_pool.c)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0  # threads of JAX that compile

    def start(self) -> None:
        """Starts the first thread, if there is none."""
        with self._lock:
            if not self._threads:
                self._grow()

    @property
    def started(self) -> bool:
        """Whether a thread was started, because something had to be waited for."""
        return self._threads > 0

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Makes `finish` wait for the block too, because a thread that is inside C++ when Python ends takes the process down."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def is_idle(self) -> bool:
        """Whether nothing is left to wait for."""
        return not self._busy and not _native.threads_waiting() and not _native.pending_waits()

    def finish(self, timeout_wall_s: float) -> bool:
        """Waits until nothing is left to wait for. Returns: False if the time ran out first."""
        end = time.monotonic() + timeout_wall_s
        while not self.is_idle():
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_EVERY_WALL_S)
        return True

    def _grow(self) -> None:
        self._threads += 1
        threading.Thread(target=_native.serve_waits, args=(self._grow_if_few,), name="tilestep-wait", daemon=True).start()

    def _grow_if_few(self) -> int:
        with self._lock:
            if self._threads < _MOST_THREADS:
                self._grow()
            return self._threads


WAIT_POOL = WaitPool()  # one for the process, whatever clients come and go
