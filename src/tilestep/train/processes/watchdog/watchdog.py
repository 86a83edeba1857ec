"""A watchdog: a small process beside each process of a program, which tells the other watchdogs how its own process ends.

It outlives the process that it watches, so it can say which process died first even where the processes end each other. Process 0's
watchdog is the hub, to which the others keep a connection. When another process has died, each watchdog prints which one, and ends its
own process. `run_watchdog.py` runs it, with the standard library alone.

Anybody can connect to the hub's port, so it reads no message before the other end has proved that it knows the program's token.
"""

import contextlib
import selectors
import signal
import socket
import sys
import time
from typing import Final, final

from tilestep.train.processes.acceptor import HANDSHAKE_WALL_S, Acceptor, connect, handshake_with
from tilestep.train.processes.watchdog.end_record import EndRecord
from tilestep.train.processes.watchdog.lines import Lifeline, Message, WatchdogLine, read_settings

PURPOSE: Final = b"watchdog"  # in the proofs at the hub's port
BEATS: Final = 8  # signs of life in the time-out
_STOPPED_WALL_S: Final = 1.0  # a watchdog that runs no code for so long was stopped itself


@final
class Watchdog:
    """Watches one process, and as the hub collects what all watchdogs tell.

    Args:
        settings: process, count, pid, timeout_s, token; the hub's listener (a file descriptor), or the hub's addresses for the others.
    """

    def __init__(self, settings: Message) -> None:
        self._me: int = settings["process"]
        self._pid: int = settings["pid"]
        self._timeout_s: float = settings["timeout_s"]
        count: int = settings["count"]
        self._selector = selectors.DefaultSelector()
        self._beat = time.monotonic()  # the last sign of life
        self._is_over = False
        self._lifeline = Lifeline(self._pid)
        self._selector.register(0, selectors.EVENT_READ, self._lifeline)
        self._record = EndRecord(count, self._timeout_s)  # the hub's has all processes
        self._lines: list[WatchdogLine] = []  # the hub's, to the other watchdogs
        self._hub: WatchdogLine | None = None
        self._acceptor: Acceptor[int] | None = None
        secret = settings["token"].encode()
        if self._me == 0:
            listener = socket.socket(fileno=settings["listener"])
            self._acceptor = Acceptor(listener, handshake_with(PURPOSE, secret, count), expected=count)
            self._selector.register(self._acceptor, selectors.EVENT_READ, self._acceptor)
        else:
            self._hub = WatchdogLine(self._connection(settings["addresses"], secret), 0)
            self._selector.register(self._hub.socket, selectors.EVENT_READ, self._hub)
        self._lifeline.live()
        self._tell({"kind": "hello", "name": f"pid {self._pid} on {socket.gethostname()}"})

    def _connection(self, addresses: list[tuple[str, int]], secret: bytes) -> socket.socket:
        until = time.monotonic() + self._timeout_s
        while True:
            for host, port in addresses:
                self._lifeline.live()
                with contextlib.suppress(OSError):
                    return connect(host, port, PURPOSE, secret, self._me, min(HANDSHAKE_WALL_S, self._timeout_s / 2))
            if time.monotonic() > until:
                self._end(f"process 0 cannot be reached at {' or '.join(f'{host}:{port}' for host, port in addresses)}")
                sys.exit(1)
            time.sleep(0.1)

    def run(self) -> None:
        """Returns when the watched process has ended well, or another one has not."""
        pause = self._timeout_s / BEATS
        before = time.monotonic()
        while not self._is_over:
            for key, _ in self._selector.select(min(pause, 0.1)):
                if key.data is self._lifeline:
                    self._hear_process()
                elif isinstance(key.data, WatchdogLine):
                    self._hear(key.data)
            self._welcome()
            now = time.monotonic()
            if now - before > max(pause, _STOPPED_WALL_S):  # perhaps the whole machine stood still, so nobody's silence counts
                self._forgive(now - before)
            before = now
            if now - self._beat > pause:
                self._beat = now
                self._lifeline.live()
                self._tell({"kind": "beat"})
                for line in self._lines:
                    line.send({"kind": "beat"})
            self._check(now)

    def _welcome(self) -> None:
        """The hub takes the connections of the other watchdogs."""
        for connection, process in () if self._acceptor is None else self._acceptor.accept():
            line = WatchdogLine(connection, process)
            self._lines.append(line)
            self._selector.register(connection, selectors.EVENT_READ, line)

    def _forgive(self, wall_s: float) -> None:
        self._lifeline.heard += wall_s
        self._record.forgive(wall_s)
        for line in (*self._lines, *([] if self._hub is None else [self._hub])):
            line.heard += wall_s

    def _tell(self, message: Message) -> None:
        """Tells the hub."""
        if self._hub is not None:
            self._hub.send(message)
        else:
            self._record.note(0, message)

    def _hear_process(self) -> None:
        for message in self._lifeline.receive():
            self._tell(message)
        if self._lifeline.is_ended:
            self._selector.unregister(0)

    def _hear(self, line: WatchdogLine) -> None:
        messages = line.receive()
        for message in messages or ():
            if line is not self._hub:
                if message["kind"] == "hello" and line.process not in self._record.came:
                    self._record.came.add(line.process)
                    line.is_known = True
                if line.is_known:
                    self._record.note(line.process, message)
            elif message["kind"] == "verdict":
                self._end(message["text"], first=message["first"])
            elif message["kind"] == "over":
                self._is_over = True
        if messages is None:
            self._drop(line)

    def _drop(self, line: WatchdogLine) -> None:
        self._selector.unregister(line.socket)
        line.socket.close()
        if line is not self._hub:
            self._lines.remove(line)
            if line.is_known:  # else it connects once more
                self._record.note(line.process, {"kind": "end", "how": "died", "at": time.time()})
        elif not self._is_over:
            self._end("process 0's machine is gone, or its watchdog has been killed", first=0)

    def _check(self, now: float) -> None:
        """Looks for silence, and as the hub for the end of the program."""
        silence_s = self._record.silence_s
        if now - self._lifeline.heard > silence_s and not self._lifeline.is_ended:
            self._lifeline.heard = now
            self._tell({"kind": "end", "how": "silent", "at": time.time() - silence_s})
        if self._hub is not None:
            if now - self._hub.heard > silence_s:
                self._end(f"process 0's machine has not answered for {silence_s:g} s", first=0)
            return
        for line in [line for line in self._lines if now - line.heard > silence_s]:
            if not line.is_known:
                self._drop(line)
                continue
            line.heard = now
            self._record.note(line.process, {"kind": "end", "how": "silent", "at": time.time() - silence_s})
        verdict = self._record.verdict(now)
        if verdict is None:
            return
        for line in self._lines:
            line.send(verdict)
        if verdict["kind"] == "over":
            self._is_over = True
        else:
            self._end(verdict["text"], first=verdict["first"])

    def _end(self, text: str, first: int = -1) -> None:
        """Ends the watched process, because the program is over. Args: text: says why. first: the process that ended first."""
        self._is_over = True
        if first != self._me:
            print(f"tilestep: {text}; process {self._me} ends, too", file=sys.stderr, flush=True)
        self._lifeline.end()


def main() -> None:
    """Runs the watchdog that standard input describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Watchdog(read_settings()).run()
