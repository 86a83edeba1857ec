"""Moments at which a test is interrupted by a Ctrl-C."""

import contextlib
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

_MAIN = threading.main_thread().ident or 0  # known from the start: no call, at which another thread may go on, comes before the sending


def send_ctrl_c() -> None:
    """Sends this process a Ctrl-C that the main thread hears before it runs anything further, whichever thread sends it.

    One that `os.kill` sends may be given to any thread, and is heard when that one gets a core. It may be long, and the test over.
    """
    signal.pthread_kill(_MAIN, signal.SIGINT)


class Moment(Protocol):
    """When a Ctrl-C comes. What is called a second time goes on where the Ctrl-C has ended it."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Never:
    """None comes."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class After:
    """One comes after so many seconds. The end is when it has come."""

    def __init__(self, wall_s: float) -> None:
        self._timer = threading.Timer(wall_s, send_ctrl_c)
        self._has_begun = False

    def begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._timer.start()

    def end(self) -> None:
        self._timer.join()


class Several:
    """Several come, while the main thread is `inside` of what is tested.

    Args: gaps_wall_s: between what begins and the first one, and between two.
    Attributes: inside: who calls `begin` sets it to False when what is tested has ended, before anything else is called.
    """

    def __init__(self, gaps_wall_s: Sequence[float]) -> None:
        self.inside = False
        self._gaps = gaps_wall_s
        self._thread = threading.Thread(target=self._send)

    def begin(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self.inside = True

    def end(self) -> None:
        self._thread.join()

    def _send(self) -> None:
        kill = signal.pthread_kill
        for gap in self._gaps:
            time.sleep(gap)
            if self.inside:  # Python's lock is held from here on, because no call comes before that which sends
                kill(_MAIN, signal.SIGINT)


class At:
    """One comes at an event at which Python looks for it: a call, a return from C.

    Args:
        event: which of those there are from a function's call to its end.
        after: of them those that come after this was called.
    """

    def __init__(self, event: int, function: Callable[..., Any], after: Callable[..., Any] | None = None) -> None:
        self._event, self._code, self._after = event, function.__code__, after
        self._seen, self._inside, self._is_due = 0, False, after is None

    def begin(self) -> None:
        if self._seen < self._event:
            sys.setprofile(self._see)

    def end(self) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, what: str, _: object) -> None:
        if frame.f_code is self._code and what in ("call", "return"):
            self._inside = what == "call"
        self._is_due = self._is_due or (self._after is not None and frame.f_code is self._after.__code__)
        if not self._inside or not self._is_due or what not in ("call", "c_return") or frame.f_globals.get("__name__") == "threading":
            return  # what is raised in the midst of `threading.Condition.wait` finds its lock released
        self._seen += 1
        if self._seen == self._event:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)


def some_gaps(rng: random.Random, took_wall_s: float) -> list[float]:
    """Gaps for `Several`, of two or three Ctrl-Cs at random moments of what takes so many seconds."""
    return [rng.uniform(0, took_wall_s), *(rng.choice((0.0, 0.0001, rng.uniform(0, took_wall_s / 4))) for _ in range(rng.choice((1, 2))))]


@contextlib.contextmanager
def ctrl_c_heard() -> Iterator[None]:
    """A Ctrl-C raises KeyboardInterrupt, also in a process that a shell has started in the background, which ignores it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def twice() -> None:
    """Two Ctrl-Cs come."""
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def at_calls(acts: Mapping[Callable[..., Any], Callable[[], None]], *, after: bool = False, number: int | None = None) -> Iterator[None]:
    """Inside, something happens in the main thread when a function is called, before any of it runs. What it raises the function raises.

    Args:
        acts: what happens, by function.
        after: it happens when the function returns.
        number: at the call of this number alone, from 1 on. None: at each, until something is raised.
    """
    codes, calls = {getattr(function, "__code__", None): act for function, act in acts.items()}, 0

    def see(frame: FrameType, what: str, _: object) -> None:
        nonlocal calls
        if what == ("return" if after else "call") and frame.f_code in codes:
            calls += 1
            if number in (None, calls):
                codes[frame.f_code]()

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)
