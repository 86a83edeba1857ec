"""Meetings of a program's processes: each says something, and hears what all of them have said.

What is said are small values of Python: process 0 collects them and tells them all. Who is no process of the program is not heard: each end
of a connection proves to the other that it knows a secret, which JAX has passed to the processes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import socket
import time
from multiprocessing.connection import Connection, wait
from typing import Any, Final, final

import numpy as np
from jax.experimental import multihost_utils

from tilestep.errors import ProcessFailedError
from tilestep.train.processes import hosts, messages
from tilestep.train.processes.challenge import greeting, introduced
from tilestep.train.processes.door import GREETING_WALL_S, Door

_broadcast: Any = multihost_utils.broadcast_one_to_all

_SECRET_BYTES: Final = 32
_ADDRESS_BYTES: Final = 512  # of process 0, with the secret
_CONNECT_WALL_S: Final = 60.0  # in which process 0 must be reached, and all others have come to it
_PURPOSE: Final = b"meeting"  # of the proofs of who connects
_ANSWER_BYTES: Final = messages.LONGEST_BYTES + 16  # of what process 0 tells all, for each process


@functools.cache
def meeting_of(me: int, count: int) -> Meeting:
    """The meeting of this program's processes. It is made once, when nothing is under way between them: it begins with a collective of JAX,
    and on CPU those hold threads which other programs of this process may need to go on."""
    return Meeting(me, count)


@final
class Meeting:
    """Connections between all processes, made when all of them call this.

    Args: me, count: this process's number, and how many they are.
    Raises: ProcessFailedError if process 0 cannot be reached, or another process does not come there.
    """

    def __init__(self, me: int, count: int) -> None:
        self.me, self.count = me, count
        self._names: list[str] = ["" for _ in range(count)]
        self._lines: dict[int, Connection] = {}
        self._is_over: ProcessFailedError | None = None
        listener = hosts.listener(hosts.own_host(), 0, backlog=max(128, count)) if me == 0 else None
        said = b"" if listener is None else secrets.token_bytes(_SECRET_BYTES) + hosts.join(*listener.getsockname()[:2]).encode()
        said = np.asarray(_broadcast(np.frombuffer(said.ljust(_ADDRESS_BYTES), np.uint8))).tobytes()
        self.secret, address = said[:_SECRET_BYTES], said[_SECRET_BYTES:].decode().strip()
        if listener is not None:
            self._take_all(listener)
        else:
            self._lines[0] = self._connected(*hosts.split(address))
        self._names = self.all(f"pid {os.getpid()} on {socket.gethostname()}")

    def _take_all(self, listener: socket.socket) -> None:
        """Takes the connections of the other processes, and nobody else's."""
        door = Door(listener, greeting(_PURPOSE, self.secret, self.count), expected=self.count)
        until = time.monotonic() + _CONNECT_WALL_S
        try:
            while missing := sorted(set(range(1, self.count)) - self._lines.keys()):
                if time.monotonic() > until:
                    text = f"has not come to the meeting of {self.count} processes within {_CONNECT_WALL_S:g} s"
                    more = f"; missing, too: {', '.join(map(str, missing[1:]))}" if missing[1:] else ""
                    raise ProcessFailedError(process=missing[0], name="on an unknown machine", text=text + more)
                for connection, process in door.guests(0.1):
                    if process in self._lines:  # it has not heard that it was taken, and comes once more
                        self._lines[process].close()
                    self._lines[process] = _line(connection)
        except BaseException:
            self.close()
            raise
        finally:
            door.close()

    def _connected(self, host: str, port: int) -> Connection:
        until = time.monotonic() + _CONNECT_WALL_S
        while (left_s := until - time.monotonic()) > 0:
            with contextlib.suppress(OSError):
                return _line(introduced(host, port, _PURPOSE, self.secret, self.me, min(GREETING_WALL_S, left_s)))
            time.sleep(0.1)
        raise ProcessFailedError(process=0, name=hosts.join(host, port), text=f"cannot be reached within {_CONNECT_WALL_S:g} s")

    def host(self) -> str:
        """This machine's address, as the other processes reach it."""
        return hosts.own_host()

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


def _line(connection: socket.socket) -> Connection:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connection.detach())
