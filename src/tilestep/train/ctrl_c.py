"""Ctrl-C at a moment at which a loop can say what it has done."""

import _thread
import gc
import importlib
import signal
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar, final

# What `signal` wraps, in ten times the time: it makes an enumeration's error of every handler that is no member of it.
_signal: Any = importlib.import_module("_signal")
_SIGINT: Final = int(signal.SIGINT)
_LOOK_WALL_S: Final = 0.005
HANG_WALL_S: Final = 2.0  # from the first Ctrl-C that a whole call has held back; after it the next one ends the call
_DROPPERS: Final = ("weakref", "_weakrefset")  # modules whose functions Python calls when an object dies
_DROPPED: Final = ("__del__", "weakref_cb")  # and functions, of the program or of concurrent.futures

_F = TypeVar("_F", bound=Callable[..., Any])

_whole: set[CodeType] = set()


def whole(function: _F) -> _F:
    """A call of the function happens in whole within a block of `CtrlC`: no Ctrl-C ends it, unless it hangs.

    A Ctrl-C could else leave a lock locked, a queue in use, or an element neither with the loop nor with its queue. The handler looks at
    the stack. So a call costs nothing, and is whole from its first instruction to its last.
    """
    _whole.add(function.__code__)
    return function


@final
class CtrlC:
    """Between `begin` and `end` a Ctrl-C waits for `check`. A second one is raised at once.

    Inside of a `whole` call the second one, and all later ones, wait too. One that comes `HANG_WALL_S` after the first that the call held
    back is raised: it ends a call that hangs.
    Python drops what is raised where an object dies. A Ctrl-C that comes there is sent again a moment later. Python does not say that it
    has called a function of the program there, unless it is a `__del__`, a callback of `gc` or one of `weakref`'s own functions: from
    others a second Ctrl-C is lost, and the first one still waits for `check`.
    Where a program handles the signal itself, and in threads that Python gives no signals, nothing is changed.
    """

    def __init__(self) -> None:
        self._pending = self._waits = self._mine = False
        self._held_by: tuple[FrameType, float] | None = None  # the whole call that holds Ctrl-Cs back, and since when

    def begin(self) -> None:
        """The block begins."""
        if threading.current_thread() is threading.main_thread() and _signal.getsignal(_SIGINT) is signal.default_int_handler:
            _signal.signal(_SIGINT, self._come)
            self._mine = True

    def end(self) -> bool:
        """The block ends. Returns: whether a Ctrl-C has come.

        Python runs signals' handlers where a function is called or has returned from C, and where a loop begins again. After this a Ctrl-C
        is raised at the next such place: who has something to return, or to raise, has it in a variable already.
        """
        try:
            if self._mine:
                self._mine = False
                _signal.signal(_SIGINT, signal.default_int_handler)
        except KeyboardInterrupt:  # it came at this very moment
            return True
        self._held_by = None
        return self._pending

    @property
    def has_come(self) -> bool:
        """Whether a Ctrl-C has come."""
        return self._pending

    def _come(self, number: int, frame: FrameType | None) -> None:
        is_first, self._pending = not self._pending, True
        if self._waits:
            self._waits = False
            raise KeyboardInterrupt
        if is_first:
            return
        holder, is_dropped = _looked_at(frame)
        if holder is not None and not self._hangs(holder):
            return
        if is_dropped:
            _thread.start_new_thread(self._send_again, ())  # `threading` takes locks, which may be the interrupted code's
            return
        raise KeyboardInterrupt

    def _hangs(self, holder: FrameType) -> bool:
        now = time.monotonic()
        if self._held_by is None or self._held_by[0] is not holder:
            self._held_by = holder, now
        return now - self._held_by[1] > HANG_WALL_S

    def _send_again(self) -> None:
        time.sleep(_LOOK_WALL_S)
        if self._mine:
            _thread.interrupt_main(signal.SIGINT)

    def check(self) -> None:
        """Raises: KeyboardInterrupt if a Ctrl-C has come."""
        if self._pending:
            raise KeyboardInterrupt

    def expect(self, wall_s: float) -> None:
        """Waits for one, for so long."""
        end = time.monotonic() + wall_s
        while self._mine and not self._pending and time.monotonic() < end:
            time.sleep(_LOOK_WALL_S)

    def wait(self, wait: Callable[[], object]) -> None:
        """Calls what waits and changes nothing. Also inside of a whole call the next Ctrl-C ends it."""
        try:
            self._waits = True
            wait()
        except KeyboardInterrupt:
            pass
        finally:
            self._waits = False


def _looked_at(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """(the outermost whole call of a stack; whether Python would drop what is raised at its top)."""
    holder, is_dropped = None, False
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        code = frame.f_code
        if code in _whole:
            holder = frame
        is_dropped = is_dropped or code in callbacks or code.co_name in _DROPPED or frame.f_globals.get("__name__") in _DROPPERS
        frame = frame.f_back
    return holder, is_dropped
