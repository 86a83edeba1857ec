"""The processes of a program check in with process 0 before JAX joins them, so that an error names a missing or wrong process.

JAX alone waits silently, aborts or crashes in these cases. Process 0 listens at the coordinator's port until all processes have checked in;
then JAX's coordinator gets the port. There is no secret yet. A program that can reach the port could check in, as it could join JAX's
processes there later. A connection without the right title is ignored. Process 0 sends nothing but process numbers.
"""

import os
import socket
import struct
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, final

from tilestep.train.patience import Aloud
from tilestep.train.processes.acceptor import HANDSHAKE_WALL_S, Acceptor, HandshakeError, Reply, receive_exactly, send_without_waiting

TITLE: Final = b"tilestep checkin"
HELLO: Final = struct.Struct(">II8s")  # num_processes, process_id, and a random number for each run of a process
FRAME: Final = struct.Struct(">4sIII")  # process 0's: a status, two numbers that belong to it, and num_processes
_HERE, _GO, _LATE, _COUNT, _TWICE, _OUTSIDE = b"here", b"go  ", b"late", b"coun", b"twic", b"outs"  # statuses
FRAME_WALL_S: Final = 2.0  # between two frames
_LOST_WALL_S: Final = 15.0  # without a frame: process 0 is gone
_RETRY_WALL_S: Final = 0.2
_HANDOVER_WALL_S: Final = 5.0  # in which JAX's coordinator begins to listen
_MOST_LISTED: Final = 8  # processes in a message
_WAY_OUT: Final = (
    "start all processes with the same coordinator_address and num_processes, each with a process_id of its own, let their machines reach "
    "that address, and give a longer initialization_timeout_s if they start far apart"
)


@dataclass(frozen=True, kw_only=True)
class Member:
    """This process among the processes of its program."""

    address: str  # the coordinator's host and port, as messages show them
    host: str
    port: int
    count: int  # the number of processes
    number: int  # this process's, from 0 on

    def __str__(self) -> str:
        return f"process {self.number} of {self.count}"


@dataclass(frozen=True, kw_only=True)
class _Peer:
    count: int
    number: int
    instance: bytes


@final
class CheckInServer:
    """Process 0's end: it waits for the other processes.

    Args: listener: a socket that listens at the coordinator's address. note: a likely mistake in that address, for messages.
    """

    def __init__(self, listener: socket.socket, member: Member, waiting: Aloud, *, note: str = "") -> None:
        self._member, self._waiting, self._note = member, waiting, note
        self._acceptor = Acceptor(listener, _handshake, expected=member.count)
        self._peers: dict[int, tuple[socket.socket, _Peer]] = {}

    def wait_for_all(self, until: float) -> None:
        """Returns when all processes have checked in. Then the listener is closed, and the others wait for JAX's coordinator.

        Args: until: the deadline, as `time.monotonic` counts.
        Raises: ValueError if a process was started with a wrong number or count; TimeoutError if processes are missing at the deadline.
        """
        next_frame, has_new = 0.0, True
        try:
            while missing := self._missing():
                self._waiting.what = (
                    f"others at {self._member.address}: here {_listed(sorted((0, *self._peers)))}, missing {_listed(missing)}{self._note}"
                )
                if time.monotonic() > until:
                    self._send_all(_LATE, 1 + len(self._peers), missing[0])
                    raise TimeoutError(f"{self._waiting}; {_WAY_OUT}")
                if has_new or time.monotonic() > next_frame:
                    next_frame = time.monotonic() + FRAME_WALL_S
                    self._send_all(_HERE, 1 + len(self._peers), missing[0])
                new = self._acceptor.accept(0.1)
                has_new = bool(new)
                for connection, peer in new:
                    self._add(connection, peer)
            self._acceptor.close()
            self._send_all(_GO)
        finally:
            self._acceptor.close()
            for connection, _ in self._peers.values():
                connection.close()

    def _missing(self) -> list[int]:
        self._forget_ended()
        return [number for number in range(1, self._member.count) if number not in self._peers]

    def _forget_ended(self) -> None:
        for number, (connection, _) in list(self._peers.items()):
            try:
                has_ended = not connection.recv(1)  # a process sends nothing after its hello
            except BlockingIOError:
                continue
            except OSError:
                has_ended = True
            if has_ended:
                connection.close()
                del self._peers[number]

    def _add(self, connection: socket.socket, peer: _Peer) -> None:
        if peer.number in self._peers:
            self._forget_ended()
        previous = self._peers.get(peer.number)
        mistake: tuple[bytes, int, int] | None = None
        if peer.count != self._member.count:
            mistake = _COUNT, peer.number, peer.count
        elif peer.number >= peer.count:
            mistake = _OUTSIDE, peer.number, 0
        elif peer.number == 0 or (previous is not None and previous[1] != peer):
            mistake = _TWICE, peer.number, 0
        if mistake is not None:
            send_without_waiting(connection, FRAME.pack(*mistake, self._member.count))
            connection.close()
            self._send_all(*mistake)
            raise ValueError(_mistake_text(*mistake, self._member.count))
        if previous is not None:  # the same process has lost its connection
            previous[0].close()
        self._peers[peer.number] = connection, peer

    def _send_all(self, status: bytes, first: int = 0, second: int = 0) -> None:
        for connection, _ in self._peers.values():
            send_without_waiting(connection, FRAME.pack(status, first, second, self._member.count))


def _handshake(_: Reply) -> Generator[int, bytes, _Peer]:
    if (yield len(TITLE)) != TITLE:
        raise HandshakeError
    count, number, instance = HELLO.unpack((yield HELLO.size))
    return _Peer(count=count, number=number, instance=instance)


def check_in(member: Member, until: float, waiting: Aloud) -> str:
    """Checks in with process 0, from any other process. Returns when all have checked in, and JAX's coordinator listens.

    Args: until: the deadline, as `time.monotonic` counts.
    Returns: the address of this machine from which this process has reached process 0.
    Raises: ValueError if a process was started with a wrong number or count; TimeoutError if process 0 is missing at the deadline, or
        other processes are missing at process 0's deadline.
    """
    hello = TITLE + HELLO.pack(member.count, member.number, os.urandom(8))
    waiting.what = f"process 0 at {member.address}"
    while time.monotonic() < until:
        try:
            connection = socket.create_connection(
                (member.host, member.port), timeout=max(0.1, min(HANDSHAKE_WALL_S, until - time.monotonic()))
            )
        except OSError as error:
            waiting.what = f"process 0 at {member.address}: nobody listens there ({error.strerror or error})"
            time.sleep(_RETRY_WALL_S)
            continue
        with connection:
            local_address = connection.getsockname()[0]
            try:
                connection.sendall(hello)
                may_go_on = _wait_for_go(connection, member, until, waiting)
            except OSError as error:
                if time.monotonic() < until:
                    waiting.what = (
                        f"process 0 at {member.address}: it has gone, or another program listens there ({error.strerror or error})"
                    )
                    time.sleep(_RETRY_WALL_S)
                continue
        if not may_go_on:
            break
        _wait_for_coordinator(member)
        return local_address
    raise TimeoutError(f"{waiting}; {_WAY_OUT}")


def report_mistake(member: Member) -> None:
    """Lets process 0, if it listens, know a process that cannot take part. Raises: ValueError if process 0 sees a mistake, too."""
    try:
        check_in(member, time.monotonic() + FRAME_WALL_S, Aloud("", str(member)))
    except TimeoutError:
        return


def _wait_for_go(connection: socket.socket, member: Member, until: float, waiting: Aloud) -> bool:
    """Returns: whether all processes have checked in; False: process 0 waits no longer.

    Raises: OSError for bytes that process 0 would not send; ValueError for a mistake that process 0 reports.
    """
    frame_wall_s = HANDSHAKE_WALL_S
    while True:
        frame = receive_exactly(connection, FRAME.size, min(until, time.monotonic() + frame_wall_s))
        status, first, second, count = FRAME.unpack(frame)
        frame_wall_s = _LOST_WALL_S
        if status in (_HERE, _LATE):
            waiting.what = f"all to come to process 0 at {member.address}: {first} are here, and process {second} is missing"
        if status in (_GO, _LATE):
            return status == _GO
        if status in (_COUNT, _TWICE, _OUTSIDE):
            raise ValueError(_mistake_text(status, first, second, count))
        if status != _HERE:
            raise ConnectionRefusedError("its bytes are no frame of tilestep")


def _wait_for_coordinator(member: Member) -> None:
    """Waits until JAX's coordinator listens, because JAX itself tries rarely. After the time limit JAX goes on, and reports the error."""
    until = time.monotonic() + _HANDOVER_WALL_S
    while time.monotonic() < until:
        try:
            socket.create_connection((member.host, member.port), timeout=_HANDOVER_WALL_S).close()
        except OSError:
            time.sleep(0.01)
        else:
            return


def _mistake_text(status: bytes, first: int, second: int, count: int) -> str:
    if status == _COUNT:
        return f"process {first} was started with num_processes={second}, and process 0 with num_processes={count}: give all the same"
    if status == _TWICE:
        return f"two processes were started with process_id={first}: give each a number of its own, 0 to {count - 1}"
    return f"a process was started with process_id={first}: with num_processes={count} it must be 0 to {count - 1}"


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _MOST_LISTED} more" if len(numbers) > _MOST_LISTED else ""
    return ", ".join(map(str, numbers[:_MOST_LISTED])) + more
