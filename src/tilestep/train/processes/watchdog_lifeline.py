"""The pipes between a watchdog and the process that it watches, on the watchdog's side. The standard library alone.

The process writes lines to the watchdog's standard input: first its settings, then ".", "bye" and "error TIME TEXT". The watchdog writes
signs of its own life, or the sign to end, to its standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import Final, final

from tilestep.train.processes.watchdog_lines import Message

SIGN, END = b".", b"x"  # from the watchdog: it lives; the process is to end
_GRACE_WALL_S: Final = 1.0  # in which a process that is told to end may do it by itself


@final
class Lifeline:
    """A watchdog's pipes to its process.

    Attributes:
        is_ended: whether the process has closed its end.
        heard: when the process last wrote, as time.monotonic() counts.
    """

    def __init__(self, pid: int) -> None:
        self.is_ended = False
        self.heard = time.monotonic()
        self._pid = pid
        self._rest = b""
        self._said_bye = False
        os.set_blocking(0, False)

    def live(self) -> None:
        """Gives the process a sign of life."""
        with contextlib.suppress(OSError):  # the process has ended, which reading shows
            os.write(1, SIGN)

    def receive(self) -> list[Message]:
        """The messages, for process 0's watchdog, that follow from what the process has written, or from its end."""
        data = os.read(0, 1 << 16)
        if not data:
            self.is_ended = True
            return [{"kind": "end", "how": "left" if self._said_bye else "died", "at": time.time()}]
        self.heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        messages: list[Message] = []
        for line in lines:
            if line == b"bye":
                self._said_bye = True
                messages.append({"kind": "bye"})
            elif line.startswith(b"error "):
                _, at, text = line.decode(errors="replace").split(" ", 2)
                messages.append({"kind": "end", "how": "error", "text": text, "at": float(at)})
        return messages

    def end(self) -> None:
        """Ends the process, if it has not ended: asks it to, and kills it if it does not."""
        with contextlib.suppress(OSError):
            os.write(1, END)
        until = time.monotonic() + _GRACE_WALL_S
        while not self.is_ended and time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                self.is_ended = not os.read(0, 1 << 16)
            time.sleep(0.02)
        if not self.is_ended and os.getppid() == self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def read_settings() -> Message:
    """The first line of standard input, read byte by byte, because the lines after it are for later."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(1)
        line += byte
    return json.loads(line)
