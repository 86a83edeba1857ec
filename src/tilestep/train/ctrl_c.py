"""Ctrl-C at a moment at which a loop can say what it has done."""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, final

# What `signal` wraps, in ten times the time: it makes an enumeration's error of every handler that is no member of it.
_signal: Any = importlib.import_module("_signal")
_SIGINT: Final = int(signal.SIGINT)
_LOOK_WALL_S: Final = 0.005


@final
class CtrlC:
    """Between `begin` and `end` a Ctrl-C waits for `check`. It comes at once within `waiting`, and at the second time.

    Where a program handles the signal itself, and in threads that Python gives no signals, nothing is changed.

    Attributes: is_noting: True while what has been done is noted, all of it or nothing, which takes no time: then a second one waits too.
    """

    def __init__(self) -> None:
        self._pending = self._waits = self.is_noting = False
        self._mine = False

    def begin(self) -> None:
        """The block begins."""
        if threading.current_thread() is threading.main_thread() and _signal.getsignal(_SIGINT) is signal.default_int_handler:
            _signal.signal(_SIGINT, self._come)
            self._mine = True

    def end(self) -> bool:
        """The block ends. Returns: whether a Ctrl-C has come.

        Python runs signals' handlers where a function is called or has returned from C, and where a loop begins again. After this a Ctrl-C
        is raised at the next such place: who has something to return has it in a variable already.
        """
        try:
            if self._mine:
                _signal.signal(_SIGINT, signal.default_int_handler)
        except KeyboardInterrupt:  # it came at this very moment
            return True
        return self._pending

    def _come(self, number: int, frame: FrameType | None) -> None:
        if self._waits or (self._pending and not self.is_noting):
            raise KeyboardInterrupt
        self._pending = True

    def check(self) -> None:
        """Raises: KeyboardInterrupt if a Ctrl-C has come."""
        if self._pending:
            raise KeyboardInterrupt

    def expect(self, wall_s: float) -> None:
        """Waits for one, for so long."""
        end = time.monotonic() + wall_s
        while self._mine and not self._pending and time.monotonic() < end:
            time.sleep(_LOOK_WALL_S)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, nothing is begun that would be lost."""
        self._waits = True
        try:
            self.check()
            yield
        finally:
            self._waits = False
