"""The watchdog's port, to which anybody can connect: strangers are not heeded, and hear nothing."""

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilestep.train.processes.acceptor import connect
from tilestep.train.processes.watchdog import lines, watchdog

RUN_WATCHDOG = Path(watchdog.__file__).with_name("run_watchdog.py")
TOKEN = "the program's"
LIMIT_WALL_S = 30.0
pytestmark = pytest.mark.process


@dataclass(kw_only=True)
class Hub:
    """A watchdog of process 0 of 2, and its port."""

    process: subprocess.Popen[bytes]
    port: int

    def knock(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_WALL_S)
        connection.sendall(data)
        return connection

    def join(self, process: int = 1) -> socket.socket:
        """As the other process's watchdog does."""
        connection = connect("127.0.0.1", self.port, watchdog.PURPOSE, TOKEN.encode(), process)
        connection.settimeout(LIMIT_WALL_S)
        send(connection, kind="hello", name="of a test")
        return connection

    def say(self, text: str) -> None:
        """As the watched process does."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def leave(self) -> None:
        """The watched process ends well."""
        self.say("bye\n")
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def started(**settings: Any) -> Iterator[Hub]:
    """A watchdog, which watches nobody that it could end. It starts without packages, so it imports the standard library alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings |= {"process": 0, "count": 2, "pid": 0, "token": TOKEN, "listener": listener.fileno()}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(RUN_WATCHDOG)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        found = Hub(process=process, port=listener.getsockname()[1])
        found.say(json.dumps(settings) + "\n")
        yield found
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def send(connection: socket.socket, **message: Any) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


@pytest.mark.slow
def test_a_process_that_never_comes_is_named() -> None:
    with started(timeout_s=4.0) as alone:
        assert alone.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(alone.process.stdout, selectors.EVENT_READ)
            while not (selector.select(0.05) and lines.END in alone.process.stdout.read1()):
                alone.say(".\n")  # the watched process lives
        assert alone.process.stdin is not None
        alone.process.stdin.close()
        assert alone.process.stderr is not None
        said = alone.process.stderr.read().decode()
    assert said == "tilestep: process 1 of 2 (unknown) has not told process 0 within 8 s that it is there; process 0 ends, too\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "ago_s", "other", "first"),
    [
        ("RuntimeError: no more data", 1.0, {"how": "error", "text": "ValueError: connection reset by peer"}, 0),
        ("ProcessFailedError: process 1 (pid 1 on here) is gone", 1.0, {"how": "died"}, 1),
        ("RuntimeError: no more data", 0.1, {"how": "died"}, 1),
    ],
    ids=["told late", "follows", "in order"],
)
def test_who_ended_first_is_named_whoever_is_heard_first(own: str, ago_s: float, other: dict[str, str], first: int) -> None:
    with started(timeout_s=60.0) as hub, hub.join() as connection:
        send(connection, kind="end", at=time.time() - 0.5, **other)
        hub.say(f"error {time.time() - ago_s:.6f} {own}\n")
        assert hub.process.stdin is not None
        hub.process.stdin.close()  # so that it has nobody to end
        messages = [json.loads(line) for line in connection.makefile("rb")]
    (verdict,) = [message for message in messages if message["kind"] == "verdict"]
    assert verdict["first"] == first
