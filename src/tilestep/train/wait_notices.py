"""Waits in which Python cannot say anything, such as that for a device: a thread says on stderr what they are for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, final

from tilestep.train.ctrl_c import whole
from tilestep.train.patience import OURS, Patience

_LOOK_WALL_S: Final = 1.0

_waits: set[Patience] = set()
_speaker: threading.Thread | None = None  # as long as there are any


@final
class Aloud:
    """A block in which this thread waits. After ten seconds, and then every minute, a line on stderr says what for.

    Args: what: gives the words behind "has waited 10 s for".
    """

    __slots__ = ("_wait",)

    def __init__(self, what: Callable[[], str]) -> None:
        self._wait = Patience(what)

    @whole
    def __enter__(self) -> None:
        global _speaker
        _waits.add(self._wait)
        if _speaker is None or not _speaker.is_alive():  # in a child that was forked it is not
            _speaker = threading.Thread(target=_speak, name=f"{OURS}patience", daemon=True)
            _speaker.start()

    @whole
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _waits.discard(self._wait)


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
