"""A process that waits for others prints a line to stderr every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, final

SAY_WALL_S: Final = 10.0


@final
class Waiting:
    """Prints why a process waits, as long as the `with` block runs.

    Attributes:
        name: of the process, the first words of each line.
        text: the words after "NAME has waited 10 s". The code that waits sets it.
    """

    def __init__(self, name: str) -> None:
        self.name, self.text = name, ""
        self._began, self._is_over = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._say, name="tilestep-waiting", daemon=True)

    @property
    def wall_s(self) -> float:
        """Seconds since it began to wait."""
        return time.monotonic() - self._began

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _say(self) -> None:
        while not self._is_over.wait(SAY_WALL_S):
            print(f"tilestep: {self}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        return f"{self.name} has waited {self.wall_s:.0f} s {self.text}"
