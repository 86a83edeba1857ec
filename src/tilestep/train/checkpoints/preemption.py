"""SIGTERM, by which a cluster takes a machine back: a run ends at the next step at which it can save."""

import itertools
import signal
import threading
from types import FrameType
from typing import Any, Final, final

from tilestep.train.untyped import jax as _jax

_SIGTERM: Final = signal.SIGTERM
_asked: Final = itertools.count(1)  # JAX agrees on the next number after the largest: with steps, chunks could leave it out


@final
class Preemption:
    """Whether the run is to end. Between `begin` and `end` SIGTERM is only noted.

    In a program of several processes JAX notes it, and says at which step all processes end. In one process nothing is noted where the
    program handles SIGTERM itself, or in other threads than the main one.
    """

    def __init__(self) -> None:
        self._has_come = False
        self._before: Any = None
        self._several = _jax.process_count() > 1

    def begin(self) -> None:
        """The run begins."""
        if self._several or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(_SIGTERM)
        if before is signal.SIG_DFL or getattr(before, "ends_the_program", False):
            self._before = before
            signal.signal(_SIGTERM, self._come)

    def end(self, *, is_told: bool) -> None:
        """The run ends. Args: is_told: whether it says itself that the signal has come; else that comes again, as if there were no run."""
        before, self._before = self._before, None
        if before is None:
            return
        if signal.getsignal(_SIGTERM) == self._come:
            signal.signal(_SIGTERM, before)
        if self._has_come and not is_told:
            signal.raise_signal(_SIGTERM)

    def _come(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._has_come and self._before is not None:  # a second one does not wait
            signal.signal(_SIGTERM, self._before)
            signal.raise_signal(_SIGTERM)
        self._has_come = True

    def has_come(self) -> bool:
        """Whether the run ends now, the same in all processes. Each of them has to ask equally often."""
        if self._several:
            from jax.experimental import multihost_utils

            return bool(multihost_utils.reached_preemption_sync_point(next(_asked)))
        return self._has_come
