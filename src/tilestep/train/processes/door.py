"""A door: a listening socket to which anybody can connect, and through which only those come who greet as agreed.

An accept that fails is no error. There are few strangers at a time: the oldest goes when one more comes. Each has a total time limit,
however often it sends a byte. The standard library alone: watchdogs run this, too.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

GREETING_WALL_S: Final = 5.0  # in which a stranger must have greeted
MOST_STRANGERS: Final = 64  # at a time, beside the guests that are expected
_MOST_ACCEPTED: Final = 64  # before strangers are heard again
_PAUSE_WALL_S: Final = 0.01  # when the system gives this process no more file descriptors

Guest = TypeVar("Guest")
Answer = Callable[[bytes], None]
Greeting = Callable[[Answer], Generator[int, bytes, Guest]]
"""Makes a generator for each stranger. It yields how many bytes it needs next, and returns who has come. Raises: Refused for a stranger."""


class Refused(Exception):
    """A stranger has not greeted as agreed."""


@dataclass(kw_only=True)
class _Stranger(Generic[Guest]):
    connection: socket.socket
    greeting: Generator[int, bytes, Guest]
    needed_bytes: int
    until: float
    data: bytes = b""


class Door(Generic[Guest]):
    """Lets guests in.

    Args:
        listener: of which nobody else accepts connections; the door closes it.
        greeting: what a guest says, and hears.
        expected: how many guests may come at once.
    """

    def __init__(self, listener: socket.socket, greeting: Greeting[Guest], *, expected: int) -> None:
        listener.setblocking(False)
        self._listener, self._greeting, self._most = listener, greeting, MOST_STRANGERS + expected
        self._strangers: dict[socket.socket, _Stranger[Guest]] = {}  # the oldest first
        self._selector = selectors.EpollSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Of the door, for a selector: readable when `guests` has something to do."""
        return self._selector.fileno()

    def guests(self, timeout_s: float = 0.0) -> list[tuple[socket.socket, Guest]]:
        """Those who have come since the last call, and their connections, which do not block. Waits for `timeout_s` if nobody knocks.

        Call it every second at least: strangers whose time is over go at a call.
        """
        came: list[tuple[socket.socket, Guest]] = []
        knocks = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        for connection in knocks:
            if isinstance(connection, socket.socket) and connection in self._strangers:
                self._hear(self._strangers[connection], came)
        if self._listener in knocks:
            self._accept(came)
        now = time.monotonic()
        for stranger in [stranger for stranger in self._strangers.values() if now > stranger.until]:
            self._drop(stranger)
        return came

    def close(self) -> None:
        """Listens no more. Strangers go; guests stay."""
        for stranger in list(self._strangers.values()):
            self._drop(stranger)
        self._selector.close()
        self._listener.close()

    def _accept(self, came: list[tuple[socket.socket, Guest]]) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # this one has gone already, or there is no room
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._make_room()
                continue
            connection.setblocking(False)
            greeting = self._greeting(_answers(connection))
            stranger = _Stranger(
                connection=connection, greeting=greeting, needed_bytes=next(greeting), until=time.monotonic() + GREETING_WALL_S
            )
            self._strangers[connection] = stranger
            self._selector.register(connection, selectors.EVENT_READ)
            self._hear(stranger, came)
            if len(self._strangers) > self._most:
                self._make_room()

    def _make_room(self) -> None:
        oldest = next(iter(self._strangers.values()), None)
        if oldest is None:
            time.sleep(_PAUSE_WALL_S)
        else:
            self._drop(oldest)

    def _hear(self, stranger: _Stranger[Guest], came: list[tuple[socket.socket, Guest]]) -> None:
        try:
            while self._received(stranger):
                data, stranger.data = stranger.data, b""
                stranger.needed_bytes = stranger.greeting.send(data)
        except StopIteration as end:
            self._selector.unregister(stranger.connection)
            del self._strangers[stranger.connection]
            came.append((stranger.connection, end.value))
        except Refused:
            self._drop(stranger)

    def _received(self, stranger: _Stranger[Guest]) -> bool:
        """Whether all has come that the greeting needs next. Raises: Refused if nothing will come any more."""
        try:
            data = stranger.connection.recv(stranger.needed_bytes - len(stranger.data))
        except BlockingIOError:
            return False
        except OSError as error:
            raise Refused from error
        if not data:
            raise Refused
        stranger.data += data
        return len(stranger.data) == stranger.needed_bytes

    def _drop(self, stranger: _Stranger[Guest]) -> None:
        del self._strangers[stranger.connection]
        self._selector.unregister(stranger.connection)
        stranger.connection.close()


def _answers(connection: socket.socket) -> Answer:
    def answer(data: bytes) -> None:
        try:
            sent = connection.send(data)
        except OSError as error:
            raise Refused from error
        if sent < len(data):  # an answer is short: only who does not read leaves no room for it
            raise Refused

    return answer


def told(connection: socket.socket, data: bytes) -> None:
    """Sends to a guest, without waiting: if it is gone, or does not read, reading tells that."""
    with contextlib.suppress(OSError):
        connection.send(data)
