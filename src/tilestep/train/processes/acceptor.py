"""An acceptor returns the connections to a listening socket that complete a handshake, and closes the others.

An accept that fails is no error. The number of connections in a handshake is bounded: one more closes the oldest. A handshake has a total
time limit, however often the other end sends a byte. This file needs the standard library alone, because watchdogs run it.

In a challenge, a handshake, both ends of a connection prove that they know the same secret, and neither sends it. The end that connects
sends a title and a nonce, and receives a nonce. It answers with its process number and a proof. The proof is an HMAC over both nonces and
the number. Only then does process 0 send its own proof. So a program without the secret receives 32 random bytes at most, and nothing
without the title. Later messages are neither encrypted nor signed.
"""

import contextlib
import errno
import hmac
import os
import selectors
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

HANDSHAKE_WALL_S: Final = 5.0  # the time limit of a handshake
MOST_PENDING: Final = 64  # connections in a handshake, beside those of the expected peers
_MOST_ACCEPTED: Final = 64  # connections before pending ones are read again
PAUSE_WALL_S: Final = 0.01  # when the system gives this process no more file descriptors

Peer = TypeVar("Peer")
Reply = Callable[[bytes], None]
Handshake = Callable[[Reply], Generator[int, bytes, Peer]]
"""Makes a generator for each connection, which yields how many bytes it needs next. It returns the peer, or raises HandshakeError."""


class HandshakeError(Exception):
    """The other end has not followed the handshake."""


@dataclass(kw_only=True)
class Pending(Generic[Peer]):
    """A connection in a handshake."""

    connection: socket.socket
    handshake: Generator[int, bytes, Peer]
    needed_bytes: int  # the size of the handshake's next part
    until: float  # the deadline of the handshake, as `time.monotonic` counts
    data: bytes = b""  # the bytes of the next part that have arrived


class Acceptor(Generic[Peer]):
    """Accepts connections.

    Args:
        listener: a listening socket. The acceptor alone accepts its connections, and closes it.
        handshake: this end's part of the handshake.
        expected: how many peers may connect at once.
    Attributes:
        pending: the connections in a handshake, the oldest first.
    """

    def __init__(self, listener: socket.socket, handshake: Handshake[Peer], *, expected: int) -> None:
        listener.setblocking(False)
        self._listener, self._handshake, self._most = listener, handshake, MOST_PENDING + expected
        self.pending: dict[socket.socket, Pending[Peer]] = {}
        self._selector = selectors.EpollSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """A file descriptor for a selector: readable when `accept` has something to do."""
        return self._selector.fileno()

    def accept(self, timeout_s: float = 0.0) -> list[tuple[socket.socket, Peer]]:
        """The peers that have connected since the last call, with their connections, which do not block.

        It waits for `timeout_s` if nothing arrives. Call it every second at least, because a call closes connections whose time is over.
        """
        peers: list[tuple[socket.socket, Peer]] = []
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        for connection in ready:
            if isinstance(connection, socket.socket) and connection in self.pending:
                self._continue(self.pending[connection], peers)
        if self._listener in ready:
            self._accept_new(peers)
        now = time.monotonic()
        for pending in [pending for pending in self.pending.values() if now > pending.until]:
            self._drop(pending)
        return peers

    def close(self) -> None:
        """Closes the listener and the pending connections. Those of peers stay open."""
        for pending in list(self.pending.values()):
            self._drop(pending)
        self._selector.close()
        self._listener.close()

    def _accept_new(self, peers: list[tuple[socket.socket, Peer]]) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the other end has closed it already, or the system has no room
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._make_room()
                continue
            connection.setblocking(False)
            handshake = self._handshake(_reply_to(connection))
            pending = Pending(
                connection=connection, handshake=handshake, needed_bytes=next(handshake), until=time.monotonic() + HANDSHAKE_WALL_S
            )
            self.pending[connection] = pending
            self._selector.register(connection, selectors.EVENT_READ)
            self._continue(pending, peers)
            if len(self.pending) > self._most:
                self._make_room()

    def _make_room(self) -> None:
        oldest = next(iter(self.pending.values()), None)
        if oldest is None:
            time.sleep(PAUSE_WALL_S)
        else:
            self._drop(oldest)

    def _continue(self, pending: Pending[Peer], peers: list[tuple[socket.socket, Peer]]) -> None:
        """Goes on with a handshake as far as bytes have arrived."""
        try:
            while self._has_needed(pending):
                data, pending.data = pending.data, b""
                pending.needed_bytes = pending.handshake.send(data)
        except StopIteration as end:
            self._selector.unregister(pending.connection)
            del self.pending[pending.connection]
            peers.append((pending.connection, end.value))
        except HandshakeError:
            self._drop(pending)

    def _has_needed(self, pending: Pending[Peer]) -> bool:
        """Whether all bytes that the handshake needs next have arrived. Raises: HandshakeError if none will arrive any more."""
        try:
            data = pending.connection.recv(pending.needed_bytes - len(pending.data))
        except BlockingIOError:
            return False
        except OSError as error:
            raise HandshakeError from error
        if not data:
            raise HandshakeError
        pending.data += data
        return len(pending.data) == pending.needed_bytes

    def _drop(self, pending: Pending[Peer]) -> None:
        del self.pending[pending.connection]
        self._selector.unregister(pending.connection)
        pending.connection.close()


def _reply_to(connection: socket.socket) -> Reply:
    def reply(data: bytes) -> None:
        try:
            sent = connection.send(data)
        except OSError as error:
            raise HandshakeError from error
        if sent < len(data):  # a reply is short, so only a peer that does not read leaves no room for it
            raise HandshakeError

    return reply


def send_without_waiting(connection: socket.socket, data: bytes) -> None:
    """Sends to a peer. Nothing happens if the peer has gone or does not read, because a read from it shows that."""
    with contextlib.suppress(OSError):
        connection.send(data)


TITLE: Final = b"tilestep greets\n"
_NONCE_BYTES: Final = 32
_NUMBER_BYTES: Final = 4
_PROOF_BYTES: Final = 32


def handshake_with(purpose: bytes, secret: bytes, count: int) -> Handshake[int]:
    """Process 0's part of the handshake with another one of `count` processes, for an `Acceptor`. A peer's identity is its number."""

    def handshake(reply: Reply) -> Generator[int, bytes, int]:
        if (yield len(TITLE)) != TITLE:
            raise HandshakeError
        nonces = (yield _NONCE_BYTES) + os.urandom(_NONCE_BYTES)
        reply(nonces[_NONCE_BYTES:])
        number = yield _NUMBER_BYTES
        proof = yield _PROOF_BYTES
        process = int.from_bytes(number)
        if not hmac.compare_digest(proof, proof_of(secret, purpose + b" member", nonces + number)) or not 0 < process < count:
            raise HandshakeError
        reply(proof_of(secret, purpose + b" hub", nonces + number))
        return process

    return handshake


def connect(host: str, port: int, purpose: bytes, secret: bytes, process: int, wall_s: float = HANDSHAKE_WALL_S) -> socket.socket:
    """A connection to process 0, after both ends have proved that they know the secret.

    Args: process: this process's number.
    Raises: OSError if nothing listens there, if another program does, or if no answer comes within `wall_s`.
    """
    until = time.monotonic() + wall_s
    connection = socket.create_connection((host, port), timeout=wall_s)
    try:
        nonce = os.urandom(_NONCE_BYTES)
        connection.sendall(TITLE + nonce)
        signed = nonce + receive_exactly(connection, _NONCE_BYTES, until) + process.to_bytes(_NUMBER_BYTES)
        connection.sendall(signed[-_NUMBER_BYTES:] + proof_of(secret, purpose + b" member", signed))
        if not hmac.compare_digest(receive_exactly(connection, _PROOF_BYTES, until), proof_of(secret, purpose + b" hub", signed)):
            raise ConnectionRefusedError(f"another program answers at {host}:{port}: it does not know this program's secret")
    except OSError:
        connection.close()
        raise
    return connection


def proof_of(secret: bytes, role: bytes, signed: bytes) -> bytes:
    """The proof that an end knows the secret. Args: role: the purpose, and which end. signed: both nonces, and the number."""
    return hmac.digest(secret, role + signed, "sha256")


def receive_exactly(connection: socket.socket, count: int, until: float) -> bytes:
    """The next `count` bytes.

    Args: until: the deadline, as `time.monotonic` counts.
    Raises: OSError if the connection ends, or the deadline passes.
    """
    data = b""
    while len(data) < count:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionResetError("the connection has ended")
        data += more
        if time.monotonic() > until and len(data) < count:
            raise TimeoutError("timed out")
    return data
