"""The processes of a program check in with process 0 before JAX joins them, so that who is missing, or does not fit, is known.

JAX by itself waits silently, aborts, or crashes in these cases. Process 0 hears the others at the coordinator's port, which JAX gets when
all are there. There is no secret yet: a program that can reach the port could check in, as it could join JAX's processes there later. What
is no greeting is passed over, and nobody is told anything but numbers of processes.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, final

from tilestep.train.processes.challenge import received
from tilestep.train.processes.door import GREETING_WALL_S, Answer, Door, Refused, told
from tilestep.train.processes.waiting import Waiting

_TITLE: Final = b"tilestep checkin"
_HELLO: Final = struct.Struct(">II8s")  # how many processes, which of them, and a number drawn at random
_FRAME: Final = struct.Struct(">4sIII")  # what process 0 tells
_HERE, _GO, _LATE, _COUNT, _TWICE, _OUTSIDE = b"here", b"go  ", b"late", b"coun", b"twic", b"outs"
_TOLD_WALL_S: Final = 2.0  # between two frames
_LOST_WALL_S: Final = 15.0  # without a frame: process 0 is gone
_RETRY_WALL_S: Final = 0.2
_HANDOVER_WALL_S: Final = 5.0  # in which JAX's coordinator begins to listen
_MOST_NAMED: Final = 8  # processes in a message
_WAY_OUT: Final = (
    "start all processes with the same coordinator_address and num_processes, each with a process_id of its own, let their machines reach "
    "that address, and give a longer initialization_timeout_s if they start far apart"
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which process this is, of how many, and where they find process 0: `address` is what is said of host and port."""

    address: str
    host: str
    port: int
    count: int
    number: int

    def __str__(self) -> str:
        return f"process {self.number} of {self.count}"


@dataclass(frozen=True, kw_only=True)
class _Guest:
    count: int
    number: int
    instance: bytes


@final
class Reception:
    """Process 0 waits here for the others.

    Args: listener: at the coordinator's address. note: what is odd about it.
    """

    def __init__(self, listener: socket.socket, place: Place, waiting: Waiting, *, note: str = "") -> None:
        self._place, self._waiting, self._note = place, waiting, note
        self._door = Door(listener, _greeting, expected=place.count)
        self._here: dict[int, tuple[socket.socket, _Guest]] = {}

    def receive_all(self, until: float) -> None:
        """Returns when all have checked in; nobody listens any more then, and the others wait for JAX's coordinator.

        Args: until: of `time.monotonic`.
        Raises: ValueError if one does not fit; TimeoutError if some have not come.
        """
        tell, guests = 0.0, True
        try:
            while missing := self._missing():
                self._waiting.text = (
                    f"at {self._place.address}: here {_named(sorted((0, *self._here)))}, missing {_named(missing)}{self._note}"
                )
                if time.monotonic() > until:
                    self._tell(_LATE, 1 + len(self._here), missing[0])
                    raise TimeoutError(f"{self._waiting}; {_WAY_OUT}")
                if guests or time.monotonic() > tell:
                    tell = time.monotonic() + _TOLD_WALL_S
                    self._tell(_HERE, 1 + len(self._here), missing[0])
                guests = self._door.guests(0.1)
                for connection, guest in guests:
                    self._receive(connection, guest)
            self._door.close()
            self._tell(_GO)
        finally:
            self._door.close()
            for connection, _ in self._here.values():
                connection.close()

    def _missing(self) -> list[int]:
        self._forget_gone()
        return [number for number in range(1, self._place.count) if number not in self._here]

    def _forget_gone(self) -> None:
        for number, (connection, _) in list(self._here.items()):
            try:
                is_gone = not connection.recv(1)  # they say nothing more
            except BlockingIOError:
                continue
            except OSError:
                is_gone = True
            if is_gone:
                connection.close()
                del self._here[number]

    def _receive(self, connection: socket.socket, guest: _Guest) -> None:
        if guest.number in self._here:
            self._forget_gone()
        before = self._here.get(guest.number)
        wrong: tuple[bytes, int, int] | None = None
        if guest.count != self._place.count:
            wrong = _COUNT, guest.number, guest.count
        elif guest.number >= guest.count:
            wrong = _OUTSIDE, guest.number, 0
        elif guest.number == 0 or (before is not None and before[1] != guest):
            wrong = _TWICE, guest.number, 0
        if wrong is not None:
            told(connection, _FRAME.pack(*wrong, self._place.count))
            connection.close()
            self._tell(*wrong)
            raise ValueError(_text(*wrong, self._place.count))
        if before is not None:  # it has lost its connection
            before[0].close()
        self._here[guest.number] = connection, guest

    def _tell(self, kind: bytes, first: int = 0, second: int = 0) -> None:
        for connection, _ in self._here.values():
            told(connection, _FRAME.pack(kind, first, second, self._place.count))


def _greeting(_: Answer) -> Generator[int, bytes, _Guest]:
    if (yield len(_TITLE)) != _TITLE:
        raise Refused
    count, number, instance = _HELLO.unpack((yield _HELLO.size))
    return _Guest(count=count, number=number, instance=instance)


def check_in(place: Place, until: float, waiting: Waiting) -> str:
    """Any other process checks in with process 0; returns when all have, and JAX's coordinator listens.

    Args: until: of `time.monotonic`.
    Returns: the address by which this process has reached process 0.
    Raises: ValueError if a process does not fit; TimeoutError if process 0 is not there, or does not let this one go on.
    """
    hello = _TITLE + _HELLO.pack(place.count, place.number, os.urandom(8))
    waiting.text = f"for process 0 at {place.address}"
    while time.monotonic() < until:
        try:
            connection = socket.create_connection(
                (place.host, place.port), timeout=max(0.1, min(GREETING_WALL_S, until - time.monotonic()))
            )
        except OSError as error:
            waiting.text = f"for process 0 at {place.address}: nobody listens there ({error.strerror or error})"
            time.sleep(_RETRY_WALL_S)
            continue
        with connection:
            own = connection.getsockname()[0]
            try:
                connection.sendall(hello)
                may_go_on = _wait_for_all(connection, place, until, waiting)
            except OSError as error:
                if time.monotonic() < until:
                    waiting.text = (
                        f"for process 0 at {place.address}: it has gone, or another program listens there ({error.strerror or error})"
                    )
                    time.sleep(_RETRY_WALL_S)
                continue
        if not may_go_on:
            break
        _wait_for_coordinator(place)
        return own
    raise TimeoutError(f"{waiting}; {_WAY_OUT}")


def tell(place: Place) -> None:
    """Tells process 0, if it is there, of a process that cannot take part. Raises: ValueError if process 0 knows why not, too."""
    try:
        check_in(place, time.monotonic() + _TOLD_WALL_S, Waiting(str(place)))
    except TimeoutError:
        return


def _wait_for_all(connection: socket.socket, place: Place, until: float, waiting: Waiting) -> bool:
    """Whether all have come; if not, process 0 waits no longer. Raises: OSError if what is heard is nothing of process 0."""
    frame_wall_s = GREETING_WALL_S
    while True:
        frame = received(connection, _FRAME.size, min(until, time.monotonic() + frame_wall_s))
        kind, first, second, count = _FRAME.unpack(frame)
        frame_wall_s = _LOST_WALL_S
        if kind in (_HERE, _LATE):
            waiting.text = f"for all to come to process 0 at {place.address}: {first} are here, and process {second} is missing"
        if kind in (_GO, _LATE):
            return kind == _GO
        if kind in (_COUNT, _TWICE, _OUTSIDE):
            raise ValueError(_text(kind, first, second, count))
        if kind != _HERE:
            raise ConnectionRefusedError("what it says is not understood")


def _wait_for_coordinator(place: Place) -> None:
    """JAX itself tries rarely. If nobody listens for so long, JAX goes on trying, and says what is wrong."""
    until = time.monotonic() + _HANDOVER_WALL_S
    while time.monotonic() < until:
        try:
            socket.create_connection((place.host, place.port), timeout=_HANDOVER_WALL_S).close()
        except OSError:
            time.sleep(0.01)
        else:
            return


def _text(kind: bytes, first: int, second: int, count: int) -> str:
    """What is wrong with a process."""
    if kind == _COUNT:
        return f"process {first} was started with num_processes={second}, and process 0 with num_processes={count}: give all the same"
    if kind == _TWICE:
        return f"two processes were started with process_id={first}: give each a number of its own, 0 to {count - 1}"
    return f"a process was started with process_id={first}: with num_processes={count} it must be 0 to {count - 1}"


def _named(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return ", ".join(map(str, numbers[:_MOST_NAMED])) + more
