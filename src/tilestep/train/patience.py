"""A thread that waits for another one, for a device, a file or a process says so on stderr: after ten seconds, and then every minute.

What waits may be no code of Python's, so another thread says it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, final

from tilestep.train.ctrl_c import whole

SAY_WALL_S: Final = 10.0
SAY_AGAIN_WALL_S: Final = 60.0
OURS: Final = "tilestep-"  # how names of the project's own threads begin
_CHECK_WALL_S: Final = 0.05  # between two looks of what waits
_LOOK_WALL_S: Final = 1.0

_waits: set[Aloud] = set()  # the speaker speaks of them
_speaker: threading.Thread | None = None  # as long as there are any


@final
class Aloud:
    """A block in which this thread waits, or several blocks of one wait, which begins when this is made.

    Args:
        what: the words behind "has waited 10 s for", or what gives them. Who waits may change them.
        who: waits; "": this thread, by its name.
        clock: wall seconds.
    """

    __slots__ = ("_began", "_clock", "_due", "_who", "is_of_loop", "what")

    def __init__(self, what: str | Callable[[], str], who: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self._clock = what, clock
        self._who = who or f"thread {threading.current_thread().name}"
        self._began = clock()
        self._due = self._began + SAY_WALL_S
        self.is_of_loop = False  # whether a loop is held up, of which other processes hear

    def __str__(self) -> str:
        what, _, wall_s = self.state()
        return f"{self._who} has waited {wall_s:.0f} s for {what}"

    @whole
    def __enter__(self) -> Aloud:
        global _speaker
        _waits.add(self)
        if _speaker is None or not _speaker.is_alive():  # in a child that was forked it is not
            _speaker = threading.Thread(target=_speak, name=f"{OURS}patience", daemon=True)
            _speaker.start()
        return self

    @whole
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _waits.discard(self)

    def state(self) -> tuple[str, float, float]:
        """(for what, since when by its clock, wall seconds since then)."""
        return self.what if isinstance(self.what, str) else self.what(), self._began, self._clock() - self._began

    @property
    def left_wall_s(self) -> float:
        """Seconds until it has something to say."""
        return max(0.0, self._due - self._clock())

    def look(self) -> None:
        """Says what is waited for, if it is time."""
        if not self.left_wall_s:
            self._due = self._clock() + SAY_AGAIN_WALL_S
            print(f"tilestep: {self}", file=sys.stderr, flush=True)


def wait(condition: threading.Condition, check: Callable[[], None] | None, aloud: Aloud) -> None:
    """Waits until a condition is notified, or a while.

    Nothing is raised in the midst of a loop's wait, which would find the condition's lock released.

    Args: check: of a loop that waits, called before; None: a reader waits, until a notification.
    """
    if check is not None:
        check()
    aloud.is_of_loop = check is not None
    with aloud:
        condition.wait(None if check is None else _CHECK_WALL_S)


def longest_wait() -> tuple[str, float, float] | None:
    """The `state` of the wait of a loop that began first; None: no loop waits for its dataset or its reader."""
    return min((wait.state() for wait in tuple(_waits) if wait.is_of_loop), key=lambda state: state[1], default=None)


def is_alone() -> bool:
    """Whether no thread of the program but this one is alive: nothing that this one waits for will be done."""
    return all(thread is threading.current_thread() or thread.name.startswith(OURS) for thread in threading.enumerate())


def say_what_is_due() -> None:
    """Says what those threads wait for whose lines are due."""
    for wait in tuple(_waits):
        wait.look()


def _speak() -> None:
    """Says what threads wait for, until none does. Most waits end before it looks."""
    global _speaker
    while True:
        time.sleep(min([_LOOK_WALL_S, *(wait.left_wall_s for wait in tuple(_waits))]))
        say_what_is_due()
        if not _waits:
            _speaker = None
            if not _waits or _speaker is not None:  # who waits from now on starts another one, or has
                return
            _speaker = threading.current_thread()
