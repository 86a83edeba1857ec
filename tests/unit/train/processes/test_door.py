"""Doors: who greets comes in, whatever strangers do."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tilestep.train.processes import door
from tilestep.train.processes.door import Answer, Door, Refused

LIMIT_WALL_S = 20.0


def greeting(answer: Answer) -> Generator[int, bytes, bytes]:
    if (yield 5) != b"hello":
        raise Refused
    answer(b"who?")
    return (yield 3)


class Here:
    """A door, and its address."""

    def __init__(self, listener: socket.socket) -> None:
        self.address = listener.getsockname()
        self.door = Door(listener, greeting, expected=1)

    def knock(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(self.address, timeout=LIMIT_WALL_S)
        connection.sendall(data)
        return connection

    def until(self, reached: Callable[[list[Any]], bool]) -> list[Any]:
        """The guests that came until something was reached."""
        found: list[Any] = []
        end = time.monotonic() + LIMIT_WALL_S
        while not reached(found):
            assert time.monotonic() < end
            found += self.door.guests(0.05)
        return found

    @property
    def strangers(self) -> int:
        return len(self.door._strangers)


@pytest.fixture
def here() -> Iterator[Here]:
    found = Here(socket.create_server(("127.0.0.1", 0)))
    yield found
    found.door.close()


def test_who_greets_comes_in_and_what_it_says_next_is_left_for_later(here: Here) -> None:
    with here.knock(b"helloBobmore") as guest:
        ((connection, name),) = here.until(lambda found: len(found) == 1)
        assert (name, guest.recv(9), connection.recv(9)) == (b"Bob", b"who?", b"more")
        connection.close()


@pytest.mark.parametrize("junk", [b"x" * 5, b"hellx" + b"\0" * 100_000, b"\xff\xfe\n\n\n", b"GET / HTTP/1.0\r\n\r\n"])
def test_who_does_not_greet_goes(here: Here, junk: bytes) -> None:
    with here.knock() as stranger:
        here.until(lambda _: here.strangers == 1)
        stranger.sendall(junk)
        assert here.until(lambda _: here.strangers == 0) == []
        with contextlib.suppress(ConnectionResetError):  # it had said more than was read
            assert stranger.recv(1) == b""


def test_who_ends_or_resets_its_connection_goes(here: Here) -> None:
    with here.knock(b"hel"), here.knock(b"hello") as other:
        here.until(lambda _: here.strangers == 2)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    assert here.until(lambda _: here.strangers == 0) == []


def test_the_time_limit_is_a_total_one(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "GREETING_WALL_S", 0.3)
    with here.knock() as slow:
        here.until(lambda _: here.strangers == 1)
        sent, end = 0, time.monotonic() + LIMIT_WALL_S
        while here.strangers:
            assert time.monotonic() < end
            if sent < 4:
                slow.sendall(b"h")
                sent += 1
            here.door.guests(0.05)


def test_the_oldest_stranger_goes_when_there_are_too_many_and_guests_still_come_in(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "GREETING_WALL_S", LIMIT_WALL_S)  # so that it is not time that ends them
    silent: list[socket.socket] = []
    for _ in range(200):
        silent.append(here.knock(b"h"))
        here.door.guests()
    most = door.MOST_STRANGERS + 1
    here.until(lambda _: here.strangers == most)
    assert silent[0].recv(1) == b""
    with here.knock(b"helloBob"):
        ((connection, name),) = here.until(lambda found: len(found) == 1)
        assert name == b"Bob"
        connection.close()
    for each in silent:
        each.close()


class NoRoom(socket.socket):
    """A listener whose next accepts fail."""

    failures: tuple[int, ...] = ()

    def accept(self) -> Any:
        if self.failures:
            number, *rest = self.failures
            self.failures = tuple(rest)
            raise OSError(number, "no room")
        return super().accept()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EPERM])
def test_an_accept_that_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(door, "_PAUSE_WALL_S", 0.0)
    listener = NoRoom(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    here = Here(listener)
    with here.knock():
        here.until(lambda _: here.strangers == 1)
        listener.failures = (number,) * 3
        with here.knock(b"helloBob"):
            ((connection, _),) = here.until(lambda found: len(found) == 1)
            connection.close()
        assert here.strangers == (0 if number in (errno.EMFILE, errno.ENFILE) else 1)  # room was made, where that helps
    here.door.close()


def test_a_closed_door_keeps_guests_and_nobody_else(here: Here) -> None:
    with here.knock(b"helloBob") as guest, here.knock(b"hel") as stranger:
        ((connection, _),) = here.until(lambda found: len(found) == 1 and here.strangers == 1)
        here.door.close()
        assert stranger.recv(1) == b""
        assert guest.recv(4) == b"who?"
        connection.sendall(b"on")
        assert guest.recv(2) == b"on"
        with pytest.raises(ConnectionRefusedError):
            here.knock()
        connection.close()
