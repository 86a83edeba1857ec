"""Threads that wait for events on behalf of JAX."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from tilestep.pjrt import _native

_MOST_THREADS = 256  # each may sit behind a program that waits for another one's event
_LOOK_EVERY_WALL_S = 0.001


class Waiters:
    """A pool that grows when all its threads wait, so that one slow event holds up no other. What they do is in C (native/event.c)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0  # threads of JAX that are in the midst of something long

    def start(self) -> None:
        """Starts the first thread, if there is none."""
        with self._lock:
            if not self._threads:
                self._grow()

    @property
    def started(self) -> bool:
        """Whether there ever was something to wait for."""
        return self._threads > 0

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Lets `finish` wait for the block too: a thread that Python's end meets in the midst of C++ takes the process down."""
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
        """Waits until nothing is left to wait for; False if the time ran out first."""
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


WAITERS = Waiters()  # of this process: JAX has one platform of the name, whatever clients come and go
