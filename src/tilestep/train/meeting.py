"""Meetings of a program's processes: each says something, and hears what all of them have said.

What is said are small values of Python: process 0 collects them and tells them all. Who is no process of the program is not heard: each end
of a connection proves to the other that it knows a secret, which JAX has passed to the processes.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import pickle
import secrets
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, final

import numpy as np
from jax.experimental import multihost_utils

from tilestep.errors import ProcessFailedError

_broadcast: Any = multihost_utils.broadcast_one_to_all

_SECRET_BYTES: Final = 32
_ADDRESS_BYTES: Final = 512  # of process 0, with the secret
_GREETING_WALL_S: Final = 5.0  # in which who has connected must have proved what it knows
_CONNECT_WALL_S: Final = 60.0  # in which process 0 must be reached
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

        Args: value: of types that pickle can write here and read there.
        Raises: TypeError for another one: nothing has been said then, and something else may be. ProcessFailedError, now and whenever it
            is called again, if a process is gone, or an exception such as a Ctrl-C has come here while others spoke: who does not know
            what they have heard cannot go on with them.
        """
        if self._is_over is not None:
            raise self._is_over
        said = _written(value)
        try:
            heard = self._heard_by_all(said) if self.me == 0 else self._heard_from_all(said)
        except BaseException as error:
            process, text = (error.process, _GONE) if isinstance(error, ProcessFailedError) else (self.me, _INTERRUPTED)
            self._is_over = ProcessFailedError(process=process, name=self.name(process), text=text)
            self.close()
            raise
        return [pickle.loads(each) for each in heard]  # who may write it has proved what it knows

    def _heard_by_all(self, said: bytes) -> list[bytes]:
        values = [said] * self.count
        missing = {line: process for process, line in self._lines.items()}
        while missing:
            for ready in wait(list(missing)):
                assert isinstance(ready, Connection)
                process = missing.pop(ready)
                try:
                    values[process] = ready.recv()
                except (EOFError, OSError) as error:
                    self._tell(process, but=process)
                    raise ProcessFailedError(process=process, name=self.name(process), text=_GONE) from error
        self._tell(values)
        return values

    def _tell(self, what: Any, but: int = -1) -> None:
        for process, line in self._lines.items():
            if process != but:
                with contextlib.suppress(OSError):  # who is gone is missing at the next meeting
                    line.send(what)

    def _heard_from_all(self, said: bytes) -> list[bytes]:
        line = self._lines[0]
        try:
            with contextlib.suppress(OSError):  # process 0 may have left, and said before who is gone
                line.send(said)
            found = line.recv()
        except (EOFError, OSError) as error:
            raise ProcessFailedError(process=0, name=self.name(0), text=_GONE) from error
        if isinstance(found, int):
            raise ProcessFailedError(process=found, name=self.name(found), text=_GONE)
        return found

    def close(self) -> None:
        """Leaves: at their next meeting the others hear that this process is gone."""
        for line in self._lines.values():
            line.close()


_GONE: Final = "is gone: it has ended, or was killed"
_INTERRUPTED: Final = "was interrupted while it met the others, and cannot go on with them: end all processes and start them again"


def _written(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"what is told to the other processes cannot be written by pickle ({error}): define the classes of its trees at the top of a "
            "module that all processes import"
        ) from error


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
