"""SIGTERM, by which `timeout` and schedulers of jobs end a program, and SIGHUP of a terminal that goes: what it has done is told first."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn, final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_BASE: Final = 128  # shells call it that and the signal
_MOST_END_WALL_S = 20.0


@final
class Terminated(SystemExit):
    """The program was asked to end. Like Ctrl-C, it comes wherever the main thread is; unlike that, it prints no traceback.

    Args: number: of the signal.

    Attributes:
        status: with which a shell says that it ended so.
        name: of the signal.
    """

    def __init__(self, number: int) -> None:
        self.status, self.name = _BASE + number, signal.Signals(number).name
        super().__init__(self.status)


@contextlib.contextmanager
def told_first() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP end the program as an exception that nobody need catch, so that what it has done can be told.

    Another SIGTERM ends the process at once, and so do 20 seconds in which the program goes on. Another SIGHUP does not, because a shell
    and its terminal send one each. A process that the program has forked ends at the first. Nothing is done where a signal is ignored, as
    under nohup, or somebody else's already.
    """
    own = [each for each in _SIGNALS if signal.getsignal(each) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread() or not own:
        yield
        return

    timers: list[threading.Timer] = []

    def still_own() -> list[signal.Signals]:
        return [each for each in own if signal.getsignal(each) is ended]

    def give_back() -> None:
        for each in still_own():
            signal.signal(each, signal.SIG_DFL)

    def ended(number: int, _frame: FrameType | None) -> NoReturn:
        give_back()
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        timer = threading.Timer(_MOST_END_WALL_S, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timers.append(timer)
        timer.start()
        raise Terminated(number)

    masks_of_forking_threads: dict[int, set[int]] = {}  # while a thread forks, Python forgets a signal that comes, so it comes behind

    def held() -> None:
        if mine := still_own():
            masks_of_forking_threads[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, mine)

    def let_go() -> None:
        if (mask := masks_of_forking_threads.pop(threading.get_ident(), None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def forked() -> None:
        give_back()
        let_go()

    vars(ended)["ends_the_program"] = True  # a run with checkpoints saves one first (train/checkpoints/preemption.py)
    for each in own:
        signal.signal(each, ended)
    os.register_at_fork(before=held, after_in_child=forked, after_in_parent=let_go)
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        give_back()


def end(code: int) -> NoReturn:
    """Ends the process as the signal would have, with whatever threads it still has. Args: code: what the shell then says."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, closed, or read by nobody
            stream.flush()
    number = code - _BASE
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(code)  # where the signal is blocked
