"""What a watchdog says to others, JSON lines over TCP, and to its process, over pipes. The standard library alone, as watchdogs run this.

The process writes lines to the watchdog's standard input: first its settings, then ".", "bye" and "error TIME TEXT". The watchdog writes
signs of its own life, or the sign to end, to its standard output.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from typing import Any, Final, final

from tilestep.train.processes.acceptor import send_without_waiting

_LONGEST_MESSAGE_BYTES: Final = 1 << 14
_LATEST: Final = 1e12  # s, of a time in a message

Message = dict[str, Any]


def message_of(line: bytes) -> Message | None:
    """The message of a line, complete for its kind; None for any other line, which the caller ignores."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"kind": "hello", "name": str()} | {"kind": "beat" | "bye" | "over"} | {"kind": "verdict", "text": str(), "first": int()}:
            return message
        case {"kind": "end", "how": "error", "text": str(), "at": int() | float() as at} if 0 <= at < _LATEST:
            return message
        case {"kind": "end", "how": "died" | "silent" | "left", "at": int() | float() as at} if 0 <= at < _LATEST:
            return message
        case _:
            return None


@final
class WatchdogLine:
    """A connection to another process's watchdog.

    Attributes:
        socket: does not block.
        process: the other process's number.
        is_known: whether the other watchdog has said hello.
        heard: when something last came, as time.monotonic() counts.
    """

    def __init__(self, connection: socket.socket, process: int) -> None:
        connection.setblocking(False)
        self.socket, self.process, self._rest = connection, process, b""
        self.is_known = False
        self.heard = time.monotonic()

    def send(self, message: Message) -> None:
        """Sends a message. Nothing happens if the connection has ended, because the next `receive` says so."""
        send_without_waiting(self.socket, json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """The messages that have come; None: the connection has ended."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self.heard = time.monotonic()
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_MESSAGE_BYTES:]
        return [message for line in lines if len(line) <= _LONGEST_MESSAGE_BYTES and (message := message_of(line)) is not None]


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
