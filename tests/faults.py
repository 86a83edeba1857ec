"""Faults on purpose, and a clock that tests move: for what cannot be run as it happens."""

import io
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
class Stderr(io.StringIO):
    """What is said on stderr. Args: word: sets `said` when it is in a text."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self.said = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._word in self.getvalue():
            self.said.set()
        return count


def faulty(at: int, fault: Callable[[], Any]) -> Iterator[Any]:
    """Elements float32[] 0, 1, 2, ...; number `at` is what `fault` does: it raises, waits, or returns another element."""
    for number in range(1_000_000):
        yield fault() if number == at else np.float32(number)


def blocked_until(event: threading.Event) -> Callable[[Any], Any]:
    """A function that waits for an event, and fails after a minute; else it returns what it is given."""

    def wait(value: Any) -> Any:
        assert event.wait(PATIENCE_WALL_S), "it never came"
        return value

    return wait
