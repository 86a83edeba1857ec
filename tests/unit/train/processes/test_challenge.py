"""The proof of knowing a secret, which neither end says."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tilestep.train.processes import acceptor
from tilestep.train.processes.acceptor import Acceptor, connect, handshake_with, receive_exactly

pytestmark = pytest.mark.process  # it listens at ports
SECRET = b"the program's"
LIMIT_WALL_S = 20.0


class Hub:
    """Process 0 of 3, which takes who comes."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self.came: list[int] = []
        self._acceptor = Acceptor(listener, handshake_with(b"test", SECRET, 3), expected=3)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for connection, process in self._acceptor.accept(0.02):
                self.came.append(process)
                connection.close()
        self._acceptor.close()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    found = Hub()
    yield found
    found.close()


def test_who_knows_the_secret_is_known_by_its_number(hub: Hub) -> None:
    for process in (2, 1, 2):
        connect("127.0.0.1", hub.port, b"test", SECRET, process).close()
    hub.close()
    assert hub.came == [2, 1, 2]


@pytest.mark.parametrize(
    ("purpose", "secret", "process"),
    [(b"test", b"a guess", 1), (b"other", SECRET, 1), (b"test", SECRET, 0), (b"test", SECRET, 3), (b"test", SECRET, 2**32 - 1)],
)
def test_anybody_else_is_refused(hub: Hub, purpose: bytes, secret: bytes, process: int) -> None:
    with pytest.raises(OSError, match=r"ended|reset"):
        connect("127.0.0.1", hub.port, purpose, secret, process)
    assert hub.came == []


def test_what_was_said_once_does_not_help_a_second_time(hub: Hub) -> None:
    nonce = bytes(32)
    with socket.create_connection(("127.0.0.1", hub.port)) as first, socket.create_connection(("127.0.0.1", hub.port)) as second:
        until = time.monotonic() + LIMIT_WALL_S
        first.sendall(acceptor.TITLE + nonce)
        said = nonce + receive_exactly(first, 32, until) + (1).to_bytes(4)
        proof = said[-4:] + acceptor.proof_of(SECRET, b"test member", said)
        second.sendall(acceptor.TITLE + nonce)
        assert receive_exactly(second, 32, until) != said[32:64]
        second.sendall(proof)
        with pytest.raises(OSError, match=r"ended|reset"):
            receive_exactly(second, 1, until)
        first.sendall(proof)
        assert receive_exactly(first, 32, until) == acceptor.proof_of(SECRET, b"test hub", said)


def test_who_hears_no_proof_says_none_that_helps_and_the_secret_never(hub: Hub) -> None:
    """Somebody else listens where process 0 should."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def pretend() -> None:
            connection, _ = server.accept()
            with connection:
                until = time.monotonic() + LIMIT_WALL_S
                heard.append(receive_exactly(connection, 48, until))
                connection.sendall(bytes(32))
                heard.append(receive_exactly(connection, 36, until))
                connection.sendall(bytes(32))

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(ConnectionRefusedError, match="another program answers at 127"):
            connect("127.0.0.1", server.getsockname()[1], b"test", SECRET, 1)
        thread.join()
    assert SECRET not in b"".join(heard)
    assert hub.came == []


def test_a_handshake_has_a_total_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    for _ in range(20):
                        connection.sendall(b"x")
                        time.sleep(0.1)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(TimeoutError):
            connect("127.0.0.1", server.getsockname()[1], b"test", SECRET, 1, 0.3)
        thread.join()
