"""How two ends of a connection prove to each other that they know the same secret, which neither says.

Who connects begins: a title, then a nonce. It hears a nonce, and answers with its number and a proof, an HMAC over both nonces and the
number. Only then does it hear a proof itself. So a stranger hears 32 random bytes, and nothing at all without the title. What is said later
is neither encrypted nor signed. The standard library alone: watchdogs run this, too.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from collections.abc import Generator
from typing import Final

from tilestep.train.processes.door import GREETING_WALL_S, Answer, Greeting, Refused

_TITLE: Final = b"tilestep greets\n"
_NONCE_BYTES: Final = 32
_NUMBER_BYTES: Final = 4
_PROOF_BYTES: Final = 32


def greeting(purpose: bytes, secret: bytes, count: int) -> Greeting[int]:
    """What process 0 hears from another one of `count` processes, for a `Door`: who has come is its number."""

    def greet(answer: Answer) -> Generator[int, bytes, int]:
        if (yield len(_TITLE)) != _TITLE:
            raise Refused
        nonces = (yield _NONCE_BYTES) + os.urandom(_NONCE_BYTES)
        answer(nonces[_NONCE_BYTES:])
        number = yield _NUMBER_BYTES
        proof = yield _PROOF_BYTES
        process = int.from_bytes(number)
        if not hmac.compare_digest(proof, _proof(secret, purpose + b" member", nonces + number)) or not 0 < process < count:
            raise Refused
        answer(_proof(secret, purpose + b" hub", nonces + number))
        return process

    return greet


def introduced(host: str, port: int, purpose: bytes, secret: bytes, process: int, wall_s: float = GREETING_WALL_S) -> socket.socket:
    """A connection to process 0 that both ends have proved to belong to the program.

    Raises: OSError if nobody is there, or somebody else, or no answer comes within `wall_s`.
    """
    until = time.monotonic() + wall_s
    connection = socket.create_connection((host, port), timeout=wall_s)
    try:
        nonce = os.urandom(_NONCE_BYTES)
        connection.sendall(_TITLE + nonce)
        said = nonce + received(connection, _NONCE_BYTES, until) + process.to_bytes(_NUMBER_BYTES)
        connection.sendall(said[-_NUMBER_BYTES:] + _proof(secret, purpose + b" member", said))
        if not hmac.compare_digest(received(connection, _PROOF_BYTES, until), _proof(secret, purpose + b" hub", said)):
            raise ConnectionRefusedError(f"somebody else answers at {host}:{port}")
    except OSError:
        connection.close()
        raise
    return connection


def _proof(secret: bytes, who: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, who + said, "sha256")


def received(connection: socket.socket, count: int, until: float) -> bytes:
    """The next `count` bytes. Raises: OSError if the connection ends, or `until` (of `time.monotonic`) is over."""
    found = b""
    while len(found) < count:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("the connection has ended")
        found += more
        if time.monotonic() > until and len(found) < count:
            raise TimeoutError("timed out")
    return found
