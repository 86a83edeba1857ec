"""The sentinel's port, which is open to the network: strangers are not heeded."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilestep.train

SENTINEL = Path(tilestep.train.__file__).with_name("sentinel.py")
TOKEN = "the program's"
STRANGERS = (
    b'{"kind": "verdict", "text": "process 1 died", "first": 1}\n',
    b'{"kind": "over"}\n',
    b'{"kind": "hello", "token": "another", "process": 1}\n{"kind": "end", "process": 1, "how": "died", "at": 0}\n',
    b'{"kind": "hello", "process": 1}\n',
    b'{"kind": "end", "process": 1, "how": "died", "at": 0}\n',
    b"no JSON\n",
    b"[1, 2]\n",
    b"[" * 5000 + b"\n",
    b"\xff\xfe\n",
    b"x" * (1 << 15),
)


@pytest.fixture
def hub() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A sentinel of process 0 of 2, and its port."""
    with socket.create_server(("localhost", 0)) as listener:
        settings = {"process": 0, "count": 2, "pid": os.getpid(), "timeout_s": 60.0, "token": TOKEN, "listener": listener.fileno()}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SENTINEL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        yield process, listener.getsockname()[1]
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def send(connection: socket.socket, **message: Any) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def test_a_stranger_is_not_heeded_and_a_process_is(hub: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = hub
    for stranger in STRANGERS:
        with socket.create_connection(("localhost", port), timeout=30) as connection:
            connection.sendall(stranger)
            assert connection.recv(1) in (b"", b"{"), stranger  # closed, or a sign of life before that
    with socket.create_connection(("localhost", port), timeout=30) as own:
        send(own, kind="hello", token=TOKEN, process=1, name="process 1")
        time.sleep(0.2)
        assert process.poll() is None
        send(own, kind="bye", process=1)
        assert process.stdin is not None
        process.stdin.write(b"bye\n")
        process.stdin.close()
        send(own, kind="end", process=1, how="left", at=time.time())
        assert process.wait(timeout=30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("own", "ago_s", "other", "first"),
    [
        ("RuntimeError: no more data", 1.0, {"how": "error", "text": "ValueError: connection reset by peer"}, 0),
        ("ProcessFailedError: process 1 (pid 1 on here) is gone", 1.0, {"how": "died"}, 1),
        ("RuntimeError: no more data", 0.1, {"how": "died"}, 1),
    ],
    ids=["told late", "follows", "in order"],
)
def test_who_ended_first_is_named_whoever_is_heard_first(
    hub: tuple[subprocess.Popen[bytes], int], own: str, ago_s: float, other: dict[str, str], first: int
) -> None:
    process, port = hub
    with socket.create_connection(("localhost", port), timeout=30) as connection:
        send(connection, kind="hello", token=TOKEN, process=1, name="process 1")
        send(connection, kind="end", process=1, at=time.time() - 0.5, **other)
        assert process.stdin is not None
        process.stdin.write(f"error {time.time() - ago_s:.6f} {own}\n".encode())
        process.stdin.close()  # so that it has nobody to end
        messages = [json.loads(line) for line in connection.makefile("rb")]
    (verdict,) = [message for message in messages if message["kind"] == "verdict"]
    assert verdict["first"] == first


def test_nobody_sees_the_token(hub: tuple[subprocess.Popen[bytes], int]) -> None:
    process, _ = hub
    assert TOKEN.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
