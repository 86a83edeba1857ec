"""What the watchdogs of a program say to each other: JSON lines over TCP. The standard library alone, because watchdogs run this."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Final, final

from tilestep.train.processes.acceptor import send_without_waiting

_LONGEST_BYTES: Final = 1 << 14  # of a message
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
class Line:
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
        self._rest = rest[-_LONGEST_BYTES:]
        return [message for line in lines if len(line) <= _LONGEST_BYTES and (message := message_of(line)) is not None]
