"""A rendezvous of a program's processes: each sends a value, and receives the values of all of them.

Values are small ones of Python. Process 0 collects them and sends all of them to each process. JAX has passed a secret to the program's
processes. Each end of a connection proves to the other that it knows the secret, so no other program takes part.

Messages show only the beginning of what another process has sent.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, Final, final

import numpy as np
from jax.experimental import multihost_utils

from tilestep.errors import ProcessFailedError
from tilestep.messages import shortened, shown
from tilestep.train.processes import hosts, messages
from tilestep.train.processes.acceptor import HANDSHAKE_WALL_S, Acceptor, connect, handshake_with

_broadcast: Any = multihost_utils.broadcast_one_to_all

SECRET_BYTES: Final = 32
ADDRESS_BYTES: Final = 512  # process 0's address and the secret
CONNECT_WALL_S: Final = 60.0  # in which all processes must have connected to process 0
PURPOSE: Final = b"rendezvous"  # in the proofs
ANSWER_BYTES: Final = 2 * messages.LONGEST_BYTES + 16  # process 0's answer, for each process, whose message is quoted in it


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
        count: the number of processes.
        broadcast: gives all processes the bytes that process 0 has.
    Attributes:
        secret: known to this program's processes alone.
        connections: to the other processes, by their numbers. A process other than 0 has one, to process 0.
    Raises:
        ProcessFailedError: if process 0 cannot be reached, or another process does not connect to it.
    """

    def __init__(self, me: int, count: int, *, broadcast: Callable[[Any], Any] = _broadcast) -> None:
        self.me, self.count = me, count
        self._names: list[str] = ["" for _ in range(count)]
        self.connections: dict[int, Connection] = {}
        self._failure: ProcessFailedError | None = None  # further calls raise it
        listener = hosts.listener(hosts.listening_host(), 0, backlog=max(128, count)) if me == 0 else None
        data = b"" if listener is None else secrets.token_bytes(SECRET_BYTES) + hosts.join(*listener.getsockname()[:2]).encode()
        data = np.asarray(broadcast(np.frombuffer(data.ljust(ADDRESS_BYTES), np.uint8))).tobytes()
        self.secret, address = data[:SECRET_BYTES], data[SECRET_BYTES:].decode().strip()
        if listener is not None:
            self._accept_all(listener)
        else:
            self.connections[0] = self._connect(*hosts.split(address))
        self._names = [shortened(name) for name in self.all_gather(f"pid {os.getpid()} on {socket.gethostname()}")]

    def _accept_all(self, listener: socket.socket) -> None:
        """Accepts the connections of the other processes, and no others."""
        acceptor = Acceptor(listener, handshake_with(PURPOSE, self.secret, self.count), expected=self.count)
        until = time.monotonic() + CONNECT_WALL_S
        try:
            while missing := sorted(set(range(1, self.count)) - self.connections.keys()):
                if time.monotonic() > until:
                    text = f"has not come to the rendezvous of {self.count} processes within {CONNECT_WALL_S:g} s"
                    more = f"; missing, too: {', '.join(map(str, missing[1:]))}" if missing[1:] else ""
                    raise ProcessFailedError(process=missing[0], name="on an unknown machine", text=text + more)
                for connection, process in acceptor.accept(0.1):
                    if process in self.connections:  # the process did not receive the last proof, and connects once more
                        self.connections[process].close()
                    self.connections[process] = _of_messages(connection)
        except BaseException:
            self.close()
            raise
        finally:
            acceptor.close()

    def _connect(self, host: str, port: int) -> Connection:
        until = time.monotonic() + CONNECT_WALL_S
        while (left_s := until - time.monotonic()) > 0:
            with contextlib.suppress(OSError):
                return _of_messages(connect(host, port, PURPOSE, self.secret, self.me, min(HANDSHAKE_WALL_S, left_s)))
            time.sleep(0.1)
        raise ProcessFailedError(process=0, name=hosts.join(host, port), text=f"cannot be reached within {CONNECT_WALL_S:g} s")

    def name(self, process: int) -> str:
        """A process's name for messages: its number in the operating system, and its machine."""
        return self._names[process]

    def all_gather(self, value: object) -> list[Any]:
        """The values of all processes, in the order of their numbers. All processes call this the same number of times.

        Args:
            value: this process's value, of JSON's types.
        Raises:
            TypeError, ValueError: for another value. It has not been sent, so this process may call again with another one.
            ValueError: if a process has sent bytes that are no message.
            ProcessFailedError: now and at every further call, if a process is gone. Also after an exception during the exchange, such as
                a Ctrl-C, because this process does not know then which values the others have received.
        """
        if self._failure is not None:
            raise self._failure
        message = messages.encode(value)
        try:
            gathered = self._collect(message) if self.me == 0 else self._exchange(message)
        except BaseException as error:
            process, text = (error.process, error.text) if isinstance(error, ProcessFailedError) else (self.me, _INTERRUPTED)
            self._failure = ProcessFailedError(process=process, name=self.name(process), text=text)
            self.close()
            raise
        return [self._decoded(process, answer) for process, answer in enumerate(gathered)]

    def _decoded(self, process: int, message: str) -> Any:
        try:
            return messages.decode(message.encode())
        except ValueError as error:
            raise ValueError(f"process {process} ({self.name(process)}) has sent {error}; {_WAY_OUT}") from error

    def _collect(self, message: bytes) -> list[str]:
        """Process 0 receives the other processes' messages, and sends all of them to each."""
        values = [message.decode("latin-1")] * self.count
        missing = {connection: process for process, connection in self.connections.items()}
        while missing:
            for ready in wait(list(missing)):
                assert isinstance(ready, Connection)
                process = missing.pop(ready)
                try:
                    values[process] = ready.recv_bytes(messages.LONGEST_BYTES).decode("latin-1")
                except (EOFError, OSError) as error:
                    self._send_all(process, but=process)
                    raise self._lost(process, ready) from error
        self._send_all(values)
        return values

    def _send_all(self, answer: list[str] | int, but: int = -1) -> None:
        """Process 0 answers all processes except `but`. Args: answer: all messages, or the number of a process that is gone."""
        message = messages.encode(answer, longest_bytes=self.count * ANSWER_BYTES)
        for process, connection in self.connections.items():
            if process != but:
                with contextlib.suppress(OSError):  # the next call finds that the process is gone
                    connection.send_bytes(message)

    def _exchange(self, message: bytes) -> list[str]:
        """Any other process sends its message to process 0, and receives all of them."""
        connection = self.connections[0]
        try:
            with contextlib.suppress(OSError):  # process 0 may have ended after it answered which process is gone
                connection.send_bytes(message)
            answer = connection.recv_bytes(self.count * ANSWER_BYTES)
        except (EOFError, OSError) as error:
            raise self._lost(0, connection) from error
        try:
            values = messages.decode(answer)
        except ValueError as error:
            raise ProcessFailedError(process=0, name=self.name(0), text=f"has sent {error}; {_WAY_OUT}") from error
        if type(values) is int and 0 <= values < self.count:
            raise ProcessFailedError(process=values, name=self.name(values), text=_GONE)
        if type(values) is not list or [type(each) for each in values] != [str] * self.count:
            text = f"has sent {shown(values)} instead of the messages of {self.count} processes; {_WAY_OUT}"
            raise ProcessFailedError(process=0, name=self.name(0), text=text)
        return values

    def _lost(self, process: int, connection: Connection) -> ProcessFailedError:
        """The error for a connection from which nothing can be read."""
        is_too_long = not connection.closed and not connection.readable  # Connection reads no more after it has refused a length
        most_bytes = messages.LONGEST_BYTES if self.me == 0 else self.count * ANSWER_BYTES
        text = f"has sent more than {most_bytes:,} bytes, the most that a message may have; {_WAY_OUT}" if is_too_long else _GONE
        return ProcessFailedError(process=process, name=self.name(process), text=text)

    def close(self) -> None:
        """Closes the connections. The next call of another process raises that this process is gone."""
        for connection in self.connections.values():
            connection.close()


_GONE: Final = "is gone: it has ended, or was killed"
_WAY_OUT: Final = "all processes must run the same tilestep"
_INTERRUPTED: Final = "was interrupted during a rendezvous, and cannot go on with the others: end all processes and start them again"


def _of_messages(connection: socket.socket) -> Connection:
    """The same connection, which sends and receives whole messages."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connection.detach())
