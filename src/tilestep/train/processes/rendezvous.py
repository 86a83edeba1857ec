"""A rendezvous of a program's processes: each sends a value, and receives the values of all of them.

Values are small ones of Python. Process 0 collects them and sends all of them to each process. Each end of a connection proves to the other
that it knows a secret, which JAX has passed to the program's processes, so nobody else takes part.
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
_ADDRESS_BYTES: Final = 512  # of process 0's address, with the secret
_CONNECT_WALL_S: Final = 60.0  # in which all processes must have connected to process 0
_PURPOSE: Final = b"rendezvous"  # of the proofs
_ANSWER_BYTES: Final = messages.LONGEST_BYTES + 16  # of process 0's answer, for each process


@functools.cache
def rendezvous_of(me: int, count: int) -> Rendezvous:
    """The rendezvous of this program's processes, made once. Make it when no program is running.

    It begins with a collective of JAX. On CPU a collective holds threads that another running program of this process may need.
    """
    return Rendezvous(me, count)


@final
class Rendezvous:
    """Connections between all processes, made when all of them call this.

    Args:
        me: this process's number.
        count: of the processes.
    Raises:
        ProcessFailedError: if process 0 cannot be reached, or another process does not connect to it.
    """

    def __init__(self, me: int, count: int) -> None:
        self.me, self.count = me, count
        self._names: list[str] = ["" for _ in range(count)]
        self._lines: dict[int, Connection] = {}
        self._failure: ProcessFailedError | None = None  # after which no values can be gathered
        listener = hosts.listener(hosts.own_host(), 0, backlog=max(128, count)) if me == 0 else None
        data = b"" if listener is None else secrets.token_bytes(_SECRET_BYTES) + hosts.join(*listener.getsockname()[:2]).encode()
        data = np.asarray(_broadcast(np.frombuffer(data.ljust(_ADDRESS_BYTES), np.uint8))).tobytes()
        self.secret, address = data[:_SECRET_BYTES], data[_SECRET_BYTES:].decode().strip()
        if listener is not None:
            self._accept_all(listener)
        else:
            self._lines[0] = self._connection(*hosts.split(address))
        self._names = self.all_gather(f"pid {os.getpid()} on {socket.gethostname()}")

    def _accept_all(self, listener: socket.socket) -> None:
        """Accepts the connections of the other processes, and nobody else's."""
        door = Door(listener, greeting(_PURPOSE, self.secret, self.count), expected=self.count)
        until = time.monotonic() + _CONNECT_WALL_S
        try:
            while missing := sorted(set(range(1, self.count)) - self._lines.keys()):
                if time.monotonic() > until:
                    text = f"has not come to the rendezvous of {self.count} processes within {_CONNECT_WALL_S:g} s"
                    more = f"; missing, too: {', '.join(map(str, missing[1:]))}" if missing[1:] else ""
                    raise ProcessFailedError(process=missing[0], name="on an unknown machine", text=text + more)
                for connection, process in door.guests(0.1):
                    if process in self._lines:  # it has not heard that it was accepted, and connects once more
                        self._lines[process].close()
                    self._lines[process] = _line(connection)
        except BaseException:
            self.close()
            raise
        finally:
            door.close()

    def _connection(self, host: str, port: int) -> Connection:
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
        """A process's name: its number in the operating system, and its machine."""
        return self._names[process]

    def all_gather(self, value: object) -> list[Any]:
        """The values of all processes, in the order of their numbers. All processes call this the same number of times.

        Args:
            value: this process's, of types that `messages.encode` writes.
        Raises:
            TypeError, ValueError: for another value. It has not been sent, so this process may call again with another one.
            ValueError: if a process has sent bytes that are no message.
            ProcessFailedError: now and at every further call, if a process is gone, or if an exception such as a Ctrl-C came here during
                the exchange, because then this process does not know which values the others have received.
        """
        if self._failure is not None:
            raise self._failure
        message = messages.encode(value)
        try:
            answers = self._collect(message) if self.me == 0 else self._send(message)
        except BaseException as error:
            process, text = (error.process, error.text) if isinstance(error, ProcessFailedError) else (self.me, _INTERRUPTED)
            self._failure = ProcessFailedError(process=process, name=self.name(process), text=text)
            self.close()
            raise
        return [self._decoded(process, answer) for process, answer in enumerate(answers)]

    def _decoded(self, process: int, message: bytes) -> Any:
        try:
            return messages.decode(message)
        except ValueError as error:
            raise ValueError(
                f"process {process} ({self.name(process)}) has sent {error}; all processes must run the same tilestep"
            ) from error

    def _collect(self, message: bytes) -> list[bytes]:
        """Process 0 receives the other processes' messages, and sends all of them to each."""
        values = [message] * self.count
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

    def _tell(self, answer: list[bytes] | int, but: int = -1) -> None:
        """Args: answer: all messages; or the number of a process that is gone."""
        message = messages.encode(answer, longest_bytes=self.count * _ANSWER_BYTES)
        for process, line in self._lines.items():
            if process != but:
                with contextlib.suppress(OSError):  # a process that is gone is missing at the next call
                    line.send_bytes(message)

    def _send(self, message: bytes) -> list[bytes]:
        """Any other process sends its message to process 0, and receives all of them."""
        line = self._lines[0]
        try:
            with contextlib.suppress(OSError):  # process 0 may have left, and have told before which process is gone
                line.send_bytes(message)
            answer = line.recv_bytes(self.count * _ANSWER_BYTES)
        except (EOFError, OSError) as error:
            raise self._lost(0, line) from error
        try:
            values = messages.decode(answer)
        except ValueError as error:
            raise ProcessFailedError(process=0, name=self.name(0), text=f"has sent {error}") from error
        if type(values) is int and 0 <= values < self.count:
            raise ProcessFailedError(process=values, name=self.name(values), text=_GONE)
        if type(values) is not list or [type(each) for each in values] != [bytes] * self.count:
            raise ProcessFailedError(process=0, name=self.name(0), text=f"has sent {values!r:.200} instead of all processes' messages")
        return values

    def _lost(self, process: int, line: Connection) -> ProcessFailedError:
        """The error for a line from which nothing can be read."""
        text = _TOO_LONG if not line.closed and not line.readable else _GONE  # as Connection remembers that it has refused a length
        return ProcessFailedError(process=process, name=self.name(process), text=text)

    def close(self) -> None:
        """Leaves: the other processes hear at their next call that this process is gone."""
        for line in self._lines.values():
            line.close()


_GONE: Final = "is gone: it has ended, or was killed"
_TOO_LONG: Final = "has sent more than a message may have: all processes must run the same tilestep"
_INTERRUPTED: Final = "was interrupted during a rendezvous, and cannot go on with the others: end all processes and start them again"


def _line(connection: socket.socket) -> Connection:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connection.detach())
