"""An acceptor returns the connections that complete a handshake, whatever others do."""

import contextlib
import errno
import socket
import struct
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tilestep.train.processes import acceptor
from tilestep.train.processes.acceptor import Acceptor, HandshakeError, Reply

pytestmark = pytest.mark.process  # it listens at ports
LIMIT_WALL_S = 20.0


def handshake(reply: Reply) -> Generator[int, bytes, bytes]:
    if (yield 5) != b"hello":
        raise HandshakeError
    reply(b"who?")
    return (yield 3)


class Here:
    """An acceptor, and its address."""

    def __init__(self, listener: socket.socket) -> None:
        self.address = listener.getsockname()
        self.acceptor = Acceptor(listener, handshake, expected=1)

    def connect(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(self.address, timeout=LIMIT_WALL_S)
        connection.sendall(data)
        return connection

    def until(self, reached: Callable[[list[Any]], bool]) -> list[Any]:
        """The peers that connected until a condition held."""
        found: list[Any] = []
        end = time.monotonic() + LIMIT_WALL_S
        while not reached(found):
            assert time.monotonic() < end
            found += self.acceptor.accept(0.05)
        return found

    @property
    def pending(self) -> int:
        return len(self.acceptor.pending)


@pytest.fixture
def here() -> Iterator[Here]:
    found = Here(socket.create_server(("127.0.0.1", 0)))
    yield found
    found.acceptor.close()


def test_a_peer_is_accepted_and_its_next_bytes_are_left_to_be_read(here: Here) -> None:
    with here.connect(b"hel") as peer:
        here.until(lambda _: here.pending == 1)
        peer.sendall(b"loBobmore")
        ((connection, name),) = here.until(lambda found: len(found) == 1)
        assert (name, peer.recv(9), connection.recv(9)) == (b"Bob", b"who?", b"more")
        connection.close()


@pytest.mark.parametrize("junk", [b"x" * 5, b"hellx" + b"\0" * 100_000, b"\xff\xfe\n\n\n", b"GET / HTTP/1.0\r\n\r\n"])
def test_a_connection_without_the_handshake_is_closed(here: Here, junk: bytes) -> None:
    with here.connect() as stranger:
        here.until(lambda _: here.pending == 1)
        stranger.sendall(junk)
        assert here.until(lambda _: here.pending == 0) == []
        with contextlib.suppress(ConnectionResetError):  # it had said more than was read
            assert stranger.recv(1) == b""


def test_a_connection_that_ends_or_is_reset_is_dropped(here: Here) -> None:
    with here.connect(b"hel"), here.connect(b"hello") as other:
        here.until(lambda _: here.pending == 2)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    assert here.until(lambda _: here.pending == 0) == []


def test_the_time_limit_is_a_total_one(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_WALL_S", 0.3)
    with here.connect() as slow:
        here.until(lambda _: here.pending == 1)
        sent, end = 0, time.monotonic() + LIMIT_WALL_S
        while here.pending:
            assert time.monotonic() < end
            if sent < 4:
                slow.sendall(b"h")
                sent += 1
            here.acceptor.accept(0.05)


def test_the_oldest_pending_connection_is_closed_when_there_are_too_many_and_peers_still_connect(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_WALL_S", LIMIT_WALL_S)  # so that it is not time that ends them
    silent: list[socket.socket] = []
    for _ in range(200):
        silent.append(here.connect(b"h"))
        here.acceptor.accept()
    most = acceptor.MOST_PENDING + 1
    here.until(lambda _: here.pending == most)
    assert silent[0].recv(1) == b""
    with here.connect(b"helloBob"):
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
    monkeypatch.setattr(acceptor, "PAUSE_WALL_S", 0.0)
    listener = NoRoom(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    here = Here(listener)
    with here.connect():
        here.until(lambda _: here.pending == 1)
        listener.failures = (number,) * 3
        with here.connect(b"helloBob"):
            ((connection, _),) = here.until(lambda found: len(found) == 1)
            connection.close()
        assert here.pending == (0 if number in (errno.EMFILE, errno.ENFILE) else 1)  # room was made, where that helps
    here.acceptor.close()


def test_a_closed_acceptor_keeps_the_connections_of_peers_and_no_others(here: Here) -> None:
    with here.connect(b"helloBob") as peer, here.connect(b"hel") as stranger:
        ((connection, _),) = here.until(lambda found: len(found) == 1 and here.pending == 1)
        here.acceptor.close()
        assert stranger.recv(1) == b""
        assert peer.recv(4) == b"who?"
        connection.sendall(b"on")
        assert peer.recv(2) == b"on"
        with pytest.raises(ConnectionRefusedError):
            here.connect()
        connection.close()
