"""A challenge-response handshake: both ends of a connection prove that they know the same secret, and neither sends it.

The end that connects sends a title and a nonce, and receives a nonce. It answers with its process number and a proof. The proof is an HMAC
over both nonces and the number. Only then does process 0 send its own proof. So a program without the secret receives 32 random bytes at
most, and nothing without the title. Later messages are neither encrypted nor signed. This file needs the standard library alone, because
watchdogs run it.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from collections.abc import Generator
from typing import Final

from tilestep.train.processes.acceptor import HANDSHAKE_WALL_S, Handshake, HandshakeError, Reply

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
