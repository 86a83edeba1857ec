"""SIGTERM, by which `timeout` and schedulers of jobs end a program: what it has done until then is told first."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn, final

_SIGNAL: Final = signal.SIGTERM
TERMINATED: Final = 128 + _SIGNAL  # what shells call it
_MOST_WALL_S = 20.0  # that the program may take to end


@final
class Terminated(SystemExit):
    """The program was asked to end. Like Ctrl-C, it comes wherever the main thread is; unlike that, it prints no traceback."""


@contextlib.contextmanager
def told_first() -> Iterator[None]:
    """Inside, SIGTERM ends the program as an exception that nobody need catch, so that what it has done can be told.

    A second one ends the process at once, and so do 20 seconds in which the program goes on. A process that the program has forked ends at
    the first. Nothing is done where the signal is ignored, or somebody else's already.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(_SIGNAL) is not signal.SIG_DFL:
        yield
        return

    timers: list[threading.Timer] = []

    def ended(_number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(_SIGNAL, signal.SIG_DFL)
        timer = threading.Timer(_MOST_WALL_S, os.kill, (os.getpid(), _SIGNAL))
        timer.daemon = True
        timers.append(timer)
        timer.start()
        raise Terminated(TERMINATED)

    masks: dict[int, set[int]] = {}  # of threads that are forking: Python forgets a signal that comes meanwhile, so it comes behind

    def held() -> None:
        if signal.getsignal(_SIGNAL) is ended:
            masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, [_SIGNAL])

    def let_go() -> None:
        if (mask := masks.pop(threading.get_ident(), None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def forked() -> None:
        if signal.getsignal(_SIGNAL) is ended:
            signal.signal(_SIGNAL, signal.SIG_DFL)
        let_go()

    signal.signal(_SIGNAL, ended)
    os.register_at_fork(before=held, after_in_child=forked, after_in_parent=let_go)
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        if signal.getsignal(_SIGNAL) is ended:
            signal.signal(_SIGNAL, signal.SIG_DFL)


def end() -> NoReturn:
    """Ends the process as SIGTERM would have, with whatever threads it still has."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, closed, or read by nobody
            stream.flush()
    signal.signal(_SIGNAL, signal.SIG_DFL)
    os.kill(os.getpid(), _SIGNAL)
    os._exit(TERMINATED)  # where the signal is blocked
