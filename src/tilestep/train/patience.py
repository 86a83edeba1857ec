"""A thread that waits for another one, for a device or for a file says so on stderr: after ten seconds, and then every minute."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, final

SAY_WALL_S: Final = 10.0
SAY_AGAIN_WALL_S: Final = 60.0
OURS: Final = "tilestep-"  # how names of the project's own threads begin

_of_loops: Final[dict[int, Patience]] = {}  # the wait of each thread that runs a loop, where it is held up


@final
class Patience:
    """One wait of this thread, from when it is made.

    Args:
        what: gives the words behind "has waited 10 s for".
        clock: wall seconds.
    """

    def __init__(self, what: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._thread = threading.current_thread()
        self._began = clock()
        self._due = self._began + SAY_WALL_S

    def __enter__(self) -> None:
        """A loop begins to wait; others may ask about that."""
        _of_loops[threading.get_ident()] = self

    def __exit__(self, *_: object) -> None:
        _of_loops.pop(threading.get_ident(), None)

    def state(self) -> tuple[str, float, float]:
        """(for what, since when by its clock, wall seconds since then)."""
        return self._what(), self._began, self._clock() - self._began

    @property
    def left_wall_s(self) -> float:
        """Seconds until it has something to say."""
        return max(0.0, self._due - self._clock())

    def look(self) -> None:
        """Says what is waited for, if it is time."""
        if not self.left_wall_s:
            now = self._clock()
            self._due = now + SAY_AGAIN_WALL_S
            text = f"tilestep: thread {self._thread.name} has waited {now - self._began:.0f} s for {self._what()}"
            print(text, file=sys.stderr, flush=True)


def longest_wait() -> tuple[str, float, float] | None:
    """The `state` of the wait of a loop that began first; None: no loop waits for its dataset or its reader."""
    return min((wait.state() for wait in list(_of_loops.values())), key=lambda state: state[1], default=None)


def is_alone() -> bool:
    """Whether no thread of the program but this one is alive: nothing that this one waits for will be done."""
    return all(thread is threading.current_thread() or thread.name.startswith(OURS) for thread in threading.enumerate())
