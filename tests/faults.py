"""Faults on purpose, and a clock that tests move: for what cannot be run as it happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

PATIENCE_WALL_S = 60.0


@final
class Clock:
    """Wall seconds that pass when a test says so. Attributes: now_wall_s: seconds."""

    def __init__(self, now_wall_s: float) -> None:
        self.now_wall_s = now_wall_s

    def __call__(self) -> float:
        return self.now_wall_s


@final
class Blocking:
    """A dataset that waits for ever at an element, as one does whose network or disk has gone. Attributes: has_come: whether it waits."""

    def __init__(self, at: int) -> None:
        self._at, self._goes_on = at, threading.Event()
        self.has_come = threading.Event()

    def __iter__(self) -> Iterator[np.float32]:
        for number in range(1_000_000):
            if number == self._at:
                self.has_come.set()
                assert self._goes_on.wait(PATIENCE_WALL_S)
            yield np.float32(number)

    def go_on(self) -> None:
        """The wait ends."""
        self._goes_on.set()


def faulty(at: int, fault: Callable[[], Any]) -> Iterator[Any]:
    """Elements float32[] 0, 1, 2, ...; in place of number `at` is what `fault` does: it raises, or returns another element."""
    for number in range(1_000_000):
        yield fault() if number == at else np.float32(number)
