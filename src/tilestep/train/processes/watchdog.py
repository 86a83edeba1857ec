"""A sentinel: a small process beside each process of a program, which tells the others' sentinels how its own one ends.

It outlives what it watches, so it can say who died first where the processes themselves end each other. Process 0's sentinel is the hub
to which the others keep a connection. Run by `run_sentinel.py`, with the standard library alone; its standard input is the watched
process's lifeline: a line of settings, then lines ".", "bye" and "error TIME TEXT". To its standard output go signs of its own life. When
another process has died it prints who, and ends its own one.

The hub's port is open to others. Who connects says and hears nothing before it has proved that it knows the program's token.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any, Final

from tilestep.train.processes.challenge import greeting, introduced
from tilestep.train.processes.door import GREETING_WALL_S, Door, told

PURPOSE: Final = b"sentinel"  # of the proofs of who connects to the hub
STOPPED_WALL_S: Final = 1.0  # a sentinel that runs no code for so long was stopped itself
SETTLE_WALL_S: Final = 0.3  # deaths that follow from the first one come within it: the first one is named
FOLLOWS: Final = "ProcessFailedError: "  # an error that says that another process has ended before, of which may be heard later
GRACE_WALL_S: Final = 1.0  # in which a process that is told to end may do it by itself
BEATS: Final = 8  # signs of life in the time-out
SILENCE: Final = 0.75  # of the time-out; what is left is for the others to end in
LONGEST_BYTES: Final = 1 << 14  # of a message
LATEST: Final = 1e12  # of a time in seconds
SIGN, END = b".", b"x"  # to the watched process: the sentinel lives; the process is to end

Message = dict[str, Any]


def message_of(line: bytes) -> Message | None:
    """The message that a line is, with all that its kind has; None: it is none, and is passed over."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"kind": "hello", "name": str()} | {"kind": "beat" | "bye" | "over"} | {"kind": "verdict", "text": str(), "first": int()}:
            return message
        case {"kind": "end", "how": "error", "text": str(), "at": int() | float() as at} if 0 <= at < LATEST:
            return message
        case {"kind": "end", "how": "died" | "silent" | "left", "at": int() | float() as at} if 0 <= at < LATEST:
            return message
        case _:
            return None


class Line:
    """A connection to another process's sentinel, of JSON lines."""

    def __init__(self, connection: socket.socket, process: int) -> None:
        connection.setblocking(False)
        self.socket, self.process, self._rest = connection, process, b""
        self.is_known = False  # the process has said who it is
        self.heard = time.monotonic()

    def send(self, message: Message) -> None:
        """Sends, or not if nobody is there any more: reading tells that."""
        told(self.socket, json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """What has come; None: the connection has ended."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self.heard = time.monotonic()
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_BYTES:]
        return [message for line in lines if len(line) <= LONGEST_BYTES and (message := message_of(line)) is not None]


class Sentinel:
    """Watches one process, and as the hub collects what all sentinels tell.

    Args: settings: process, count, pid, timeout_s, token; listener (a file descriptor) for the hub, addresses of it for the others.
    """

    def __init__(self, settings: Message) -> None:
        self.me: int = settings["process"]
        self.count: int = settings["count"]
        self.pid: int = settings["pid"]
        self.timeout_s: float = settings["timeout_s"]
        self.silence_s = self.timeout_s * SILENCE
        self.missing_s = self.timeout_s * 2  # a sentinel that cannot connect gives up, and ends its process, after the time-out
        self.secret = settings["token"].encode()
        self.selector = selectors.DefaultSelector()
        self.began = self.beat = time.monotonic()
        self.heard = time.monotonic()  # the watched process
        self.said_bye = self.ended = False
        self.rest = b""
        self.lines: list[Line] = []
        self.byes: dict[int, float] = {}  # when each process has said that it ends well
        self.names: dict[int, str] = {}
        self.came: set[int] = {0}  # the processes whose sentinels the hub knows
        self.ends: list[Message] = []  # how processes ended, as the hub has heard it
        self.settled = 0.0  # when the first of them is judged
        self.over = False
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ)
        self.hub: Line | None = None
        self.door: Door[int] | None = None
        if self.me == 0:
            self.door = Door(socket.socket(fileno=settings["listener"]), greeting(PURPOSE, self.secret, self.count), expected=self.count)
            self.selector.register(self.door, selectors.EVENT_READ, self.door)
        else:
            self.hub = Line(self._connected(settings["addresses"]), 0)
            self.selector.register(self.hub.socket, selectors.EVENT_READ, self.hub)
        self._live()
        self.tell({"kind": "hello", "name": f"pid {self.pid} on {socket.gethostname()}"})

    def _connected(self, addresses: list[tuple[str, int]]) -> socket.socket:
        until = self.began + self.timeout_s
        while True:
            for host, port in addresses:
                self._live()
                with contextlib.suppress(OSError):
                    return introduced(host, port, PURPOSE, self.secret, self.me, min(GREETING_WALL_S, self.timeout_s / 2))
            if time.monotonic() > until:
                self.judged(f"process 0 cannot be reached at {' or '.join(f'{host}:{port}' for host, port in addresses)}")
                sys.exit(1)
            time.sleep(0.1)

    def _live(self) -> None:
        """Gives the watched process a sign of life."""
        with contextlib.suppress(OSError):  # it has ended: its lifeline tells that
            os.write(1, SIGN)

    def run(self) -> None:
        """Until the watched process has ended well, or another one has not."""
        pause = self.timeout_s / BEATS
        before = time.monotonic()
        while not self.over:
            for key, _ in self.selector.select(min(pause, 0.1)):
                if key.data is None:
                    self._hear_own()
                elif isinstance(key.data, Line):
                    self._hear(key.data)
            self._welcome()
            now = time.monotonic()
            if now - before > max(pause, STOPPED_WALL_S):  # perhaps with all the machine: who was silent then cannot be known
                self._forget(now - before)
            before = now
            if now - self.beat > pause:
                self.beat = now
                self._live()
                self.tell({"kind": "beat"})
                for line in self.lines:
                    line.send({"kind": "beat"})
            self._check(now)

    def _welcome(self) -> None:
        """The hub takes the connections of the other processes' sentinels."""
        for connection, process in () if self.door is None else self.door.guests():
            line = Line(connection, process)
            self.lines.append(line)
            self.selector.register(connection, selectors.EVENT_READ, line)

    def _forget(self, wall_s: float) -> None:
        self.heard += wall_s
        self.began += wall_s
        for line in (*self.lines, *([] if self.hub is None else [self.hub])):
            line.heard += wall_s
        self.byes = {process: when + wall_s for process, when in self.byes.items()}

    def tell(self, message: Message) -> None:
        """Tells the hub."""
        if self.hub is not None:
            self.hub.send(message)
        else:
            self._note(0, message)

    def _hear_own(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self.selector.unregister(0)
            self.ended = True
            self.tell({"kind": "end", "how": "left" if self.said_bye else "died", "at": time.time()})
            return
        self.heard = time.monotonic()
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line == b"bye":
                self.said_bye = True
                self.tell({"kind": "bye"})
            elif line.startswith(b"error "):
                _, at, text = line.decode(errors="replace").split(" ", 2)
                self.tell({"kind": "end", "how": "error", "text": text, "at": float(at)})

    def _hear(self, line: Line) -> None:
        messages = line.receive()
        for message in messages or ():
            if line is not self.hub:
                if message["kind"] == "hello" and line.process not in self.came:
                    self.came.add(line.process)
                    line.is_known = True
                if line.is_known:
                    self._note(line.process, message)
            elif message["kind"] == "verdict":
                self.judged(message["text"], first=message["first"])
            elif message["kind"] == "over":
                self.over = True
        if messages is None:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        self.selector.unregister(line.socket)
        line.socket.close()
        if line is not self.hub:
            self.lines.remove(line)
            if line.is_known:  # else it connects once more
                self._note(line.process, {"kind": "end", "how": "died", "at": time.time()})
        elif not self.over:
            self.judged("process 0's machine is gone, or its sentinel has been killed", first=0)

    def _note(self, process: int, message: Message) -> None:
        """The hub hears of a process."""
        if message["kind"] == "hello":
            self.names[process] = message["name"]
        elif message["kind"] == "bye":
            self.byes[process] = time.monotonic()
        elif message["kind"] == "end" and not any(end["process"] == process for end in self.ends):
            self.ends.append(message | {"process": process})
            self.settled = self.settled or time.monotonic() + min(SETTLE_WALL_S, self.timeout_s / 2)

    def _check(self, now: float) -> None:
        if now - self.heard > self.silence_s and not self.ended:
            self.heard = now
            self.tell({"kind": "end", "how": "silent", "at": time.time() - self.silence_s})
        if self.hub is not None:
            if now - self.hub.heard > self.silence_s:
                self.judged(f"process 0's machine has not answered for {self.silence_s:g} s", first=0)
            return
        for line in [line for line in self.lines if now - line.heard > self.silence_s]:
            if not line.is_known:
                self._drop(line)
                continue
            line.heard = now
            self._note(line.process, {"kind": "end", "how": "silent", "at": time.time() - self.silence_s})
        if now - self.began > self.missing_s:
            for process in set(range(self.count)) - self.came:
                self._note(process, {"kind": "end", "how": "missing", "at": time.time()})
        first = min(self.byes, key=self.byes.__getitem__, default=self.me)
        if 0 < len(self.byes) < self.count and now - self.byes[first] > self.silence_s:  # JAX waits at its own end for the others
            self._note(first, {"kind": "end", "how": "left", "at": time.time() - self.silence_s})
        if self.settled and now > self.settled:
            self._judge()

    def _judge(self) -> None:
        """The hub says who was first, if that is an end at which the others cannot go on."""
        bad = [end for end in self.ends if end["how"] != "left" or len(self.byes) < self.count]
        if bad:
            first = min(bad, key=lambda end: (end.get("text", "").startswith(FOLLOWS), end["at"]))
            process = first["process"]
            how = {
                "died": "died: it was killed, or it crashed",
                "error": f"ended with an error: {first.get('text')}",
                "silent": f"has not answered for {self.silence_s:g} s",
                "left": "ended before the others",
                "missing": f"has not told process 0 within {self.missing_s:g} s that it is there",
            }[first["how"]]
            text = f"process {process} of {self.count} ({self.names.get(process, 'unknown')}) {how}"
            for line in self.lines:
                line.send({"kind": "verdict", "text": text, "first": process})
            self.judged(text, first=process)
        elif len(self.ends) == self.count:
            for line in self.lines:
                line.send({"kind": "over"})
            self.over = True

    def judged(self, text: str, first: int = -1) -> None:
        """The program is over: says why, and ends the watched process if it has not ended."""
        self.over = True
        if first != self.me:
            print(f"tilestep: {text}; process {self.me} ends, too", file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            os.write(1, END)
        until = time.monotonic() + GRACE_WALL_S
        while not self.ended and time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                self.ended = not os.read(0, 1 << 16)
            time.sleep(0.02)
        if not self.ended and os.getppid() == self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _settings() -> Message:
    """The first line of the lifeline, byte by byte: what comes after it is not for now."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(1)
        line += byte
    return json.loads(line)


def main() -> None:
    """Runs the sentinel that standard input describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Sentinel(_settings()).run()
