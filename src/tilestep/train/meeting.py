"""Meetings of a program's processes: each says something, and hears what all of them have said.

What is said are small values of Python: process 0 collects them and tells them all. Who is no process of the program is not heard: each end
of a connection proves to the other that it knows a secret, which JAX has passed to the processes.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import secrets
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, final

import numpy as np
from jax.experimental import multihost_utils

from tilestep.errors import ProcessFailedError
from tilestep.train import messages

_broadcast: Any = multihost_utils.broadcast_one_to_all

_SECRET_BYTES: Final = 32
_ADDRESS_BYTES: Final = 512  # of process 0, with the secret
_GREETING_WALL_S: Final = 5.0  # in which who has connected must have proved what it knows
_CONNECT_WALL_S: Final = 60.0  # in which process 0 must be reached
_ANSWER_BYTES: Final = messages.LONGEST_BYTES + 16  # of what process 0 tells all, for each process
_UNROUTED: Final = "192.0.2.1"  # an address of documentation (RFC 5737): nothing is sent to it


@functools.cache
def meeting_of(me: int, count: int) -> Meeting:
    """The meeting of this program's processes. It is made once, when nothing is under way between them: it begins with a collective of JAX,
    and on CPU those hold threads which other programs of this process may need to go on."""
    return Meeting(me, count)


@final
class Meeting:
    """Connections between all processes, made when all of them call this.

    Args: me, count: this process's number, and how many they are.
    Raises: ProcessFailedError if process 0 cannot be reached.
    """

    def __init__(self, me: int, count: int) -> None:
        self.me, self.count = me, count
        self._names: list[str] = ["" for _ in range(count)]
        self._lines: dict[int, Connection] = {}
        self._is_over: ProcessFailedError | None = None
        listener = socket.create_server(("", 0), backlog=count) if me == 0 else None
        said = b"" if listener is None else secrets.token_bytes(_SECRET_BYTES) + _addresses(listener.getsockname()[1])
        said = np.asarray(_broadcast(np.frombuffer(said.ljust(_ADDRESS_BYTES), np.uint8))).tobytes()
        self.secret, addresses = said[:_SECRET_BYTES], said[_SECRET_BYTES:].decode().split()
        if listener is not None:
            with listener:
                while len(self._lines) < count - 1:
                    self._greet(listener)
        else:
            self._lines[0] = self._connected(addresses)
        self._names = self.all(f"pid {os.getpid()} on {socket.gethostname()}")

    def _greet(self, listener: socket.socket) -> None:
        """Takes the next process's connection, and nobody else's."""
        connection, _ = listener.accept()
        connection.settimeout(_GREETING_WALL_S)
        nonce = secrets.token_bytes(_SECRET_BYTES)
        try:
            theirs = _received(connection, _SECRET_BYTES)
            connection.sendall(self._proof(b"hub", theirs) + nonce)
            proof, number = _received(connection, _SECRET_BYTES), int.from_bytes(_received(connection, 4))
        except OSError:
            connection.close()
            return
        if hmac.compare_digest(proof, self._proof(b"member", nonce)):
            self._lines[number] = _line(connection)
        else:
            connection.close()

    def _connected(self, addresses: Sequence[str]) -> Connection:
        until = time.monotonic() + _CONNECT_WALL_S
        while time.monotonic() < until:
            for address in addresses:
                with contextlib.suppress(OSError):
                    return self._introduced(address)
            time.sleep(0.1)
        raise ProcessFailedError(process=0, name=" or ".join(addresses), text=f"cannot be reached within {_CONNECT_WALL_S:g} s")

    def _introduced(self, address: str) -> Connection:
        """A connection to process 0. Raises: OSError if nobody is there, or somebody else."""
        host, port = address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=_GREETING_WALL_S)
        try:
            nonce = secrets.token_bytes(_SECRET_BYTES)
            connection.sendall(nonce)
            proof, theirs = _received(connection, _SECRET_BYTES), _received(connection, _SECRET_BYTES)
            if not hmac.compare_digest(proof, self._proof(b"hub", nonce)):
                raise ConnectionRefusedError(f"{address} is somebody else")
            connection.sendall(self._proof(b"member", theirs) + self.me.to_bytes(4))
        except OSError:
            connection.close()
            raise
        return _line(connection)

    def _proof(self, who: bytes, nonce: bytes) -> bytes:
        return hmac.digest(self.secret, who + nonce, "sha256")

    def host(self) -> str:
        """This machine's address, as the other processes reach it."""
        line = socket.socket(fileno=os.dup(next(iter(self._lines.values())).fileno()))
        with line:
            return line.getsockname()[0]

    def name(self, process: int) -> str:
        """What a process is called: its number among others, and where it is."""
        return self._names[process]

    def all(self, value: Any) -> list[Any]:
        """What each process has said, in the order of their numbers. All processes call this the same number of times.

        Args: value: of types that `messages.encode` writes.
        Raises: TypeError or ValueError for another one: nothing has been said then, and something else may be. ValueError if a process
            has said something that is no message. ProcessFailedError, now and whenever it is called again, if a process is gone, or an
            exception such as a Ctrl-C has come here while others spoke: who does not know what they have heard cannot go on with them.
        """
        if self._is_over is not None:
            raise self._is_over
        said = messages.encode(value)
        try:
            heard = self._heard_by_all(said) if self.me == 0 else self._heard_from_all(said)
        except BaseException as error:
            process, text = (error.process, error.text) if isinstance(error, ProcessFailedError) else (self.me, _INTERRUPTED)
            self._is_over = ProcessFailedError(process=process, name=self.name(process), text=text)
            self.close()
            raise
        return [self._understood(process, each) for process, each in enumerate(heard)]

    def _understood(self, process: int, message: bytes) -> Any:
        try:
            return messages.decode(message)
        except ValueError as error:
            raise ValueError(
                f"process {process} ({self.name(process)}) has said {error}; all processes must run the same tilestep"
            ) from error

    def _heard_by_all(self, said: bytes) -> list[bytes]:
        values = [said] * self.count
        missing = {line: process for process, line in self._lines.items()}
        while missing:
            for ready in wait(list(missing)):
                assert isinstance(ready, Connection)
                process = missing.pop(ready)
                try:
                    values[process] = ready.recv_bytes(messages.LONGEST_BYTES)
                except (EOFError, OSError) as error:
                    self._tell(process, but=process)
                    raise self._lost(process, ready) from error
        self._tell(values)
        return values

    def _tell(self, what: list[bytes] | int, but: int = -1) -> None:
        """Args: what: all have said; or the number of a process that is gone."""
        message = messages.encode(what, longest_bytes=self.count * _ANSWER_BYTES)
        for process, line in self._lines.items():
            if process != but:
                with contextlib.suppress(OSError):  # who is gone is missing at the next meeting
                    line.send_bytes(message)

    def _heard_from_all(self, said: bytes) -> list[bytes]:
        line = self._lines[0]
        try:
            with contextlib.suppress(OSError):  # process 0 may have left, and said before who is gone
                line.send_bytes(said)
            message = line.recv_bytes(self.count * _ANSWER_BYTES)
        except (EOFError, OSError) as error:
            raise self._lost(0, line) from error
        try:
            found = messages.decode(message)
        except ValueError as error:
            raise ProcessFailedError(process=0, name=self.name(0), text=f"has said {error}") from error
        if type(found) is int and 0 <= found < self.count:
            raise ProcessFailedError(process=found, name=self.name(found), text=_GONE)
        if type(found) is not list or [type(each) for each in found] != [bytes] * self.count:
            raise ProcessFailedError(process=0, name=self.name(0), text=f"has said {found!r:.200} instead of what all have said")
        return found

    def _lost(self, process: int, line: Connection) -> ProcessFailedError:
        """Why nothing can be read from a line."""
        text = _TOO_LONG if not line.closed and not line.readable else _GONE  # as Connection remembers that it has refused a length
        return ProcessFailedError(process=process, name=self.name(process), text=text)

    def close(self) -> None:
        """Leaves: at their next meeting the others hear that this process is gone."""
        for line in self._lines.values():
            line.close()


_GONE: Final = "is gone: it has ended, or was killed"
_TOO_LONG: Final = "has said more than a message may have: all processes must run the same tilestep"
_INTERRUPTED: Final = "was interrupted while it met the others, and cannot go on with them: end all processes and start them again"


def _addresses(port: int) -> bytes:
    """Where the other processes may find this one, from the most to the least likely."""
    hosts: list[str] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((_UNROUTED, 9))  # says by which of its addresses this machine would reach others
        hosts.append(probe.getsockname()[0])
    hosts += [socket.gethostname(), "localhost"]
    return " ".join(f"{host}:{port}" for host in dict.fromkeys(hosts)).encode()


def _received(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("the connection has ended")
        found += more
    return found


def _line(connection: socket.socket) -> Connection:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connection.detach())
