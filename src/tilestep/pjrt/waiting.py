"""Threads that wait for events on behalf of JAX."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

from tilestep.pjrt._native import Event, finish, threads_waiting

_MOST_THREADS = 256  # each may sit behind a program that waits for another one's event
_LOOK_EVERY_WALL_S = 0.001

Wait = tuple[Event, int, int]  # event; addresses of a C function and of what it gets beside the event's error


class Waiters:
    """A pool that grows when all its threads wait, so that one slow event holds up no other.

    `wait_later` is a queue's own put, which runs no bytecode: a Ctrl-C cannot come between an event and its waiting.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Wait] = queue.SimpleQueue()
        self.wait_later: Callable[[Wait], None] = self._work.put
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0
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
        return not self._busy and not threads_waiting() and (not self._threads or (self._work.empty() and not self._waiting))

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
        threading.Thread(target=self._loop, name="tilestep-wait", daemon=True).start()

    def _loop(self) -> None:
        while True:
            wait = self._work.get()
            with self._lock:
                self._waiting += 1
                if self._waiting == self._threads < _MOST_THREADS:
                    self._grow()
            try:
                finish(wait)
            finally:
                del wait  # it may hold the last reference to an array
                with self._lock:
                    self._waiting -= 1


WAITERS = Waiters()  # of this process: JAX has one platform of the name, whatever clients come and go
