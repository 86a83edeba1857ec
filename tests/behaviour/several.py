"""Processes that are started together, and how each of them ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes import clean_environ

_OF_GLOO = re.compile(r"\[Gloo\]|peer ranks|^(: )?\d*$")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it has printed, without what JAX's collectives say when they begin, in several threads that interrupt each other."""
        return [line for line in self.out.splitlines() if not _OF_GLOO.search(line)]

    def found(self, case: str) -> str:
        """The line that tells of a case."""
        (line,) = [line for line in self.lines if line.startswith(f"{case} raised ")]
        return line


def free_port() -> int:
    """A port of localhost at which nobody listens."""
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


def started(commands: Sequence[Sequence[str]], *, limit_wall_s: float, platforms: str | None = "cpu") -> list[Ended]:
    """How processes ended that were started together, from the project's root. Those that take too long are killed.

    Args: platforms: of JAX; None: all that are installed.
    Raises: subprocess.TimeoutExpired.
    """
    settings = clean_environ({"PYTHONPATH": str(ROOT)} | ({} if platforms is None else {"JAX_PLATFORMS": platforms}))
    running = [subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    until = time.monotonic() + limit_wall_s
    try:
        ended: list[Ended] = []
        for process in running:
            out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
            ended.append(Ended(status=process.returncode, out=out, err=err))
        return ended
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def end(how: str, error: Exception) -> None:
    """Ends this process, or all but, in the way that a test asks for: "kill", "stop", "raise" (`error`), "leave"; else nothing."""
    print("victim", flush=True)
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise error
        case "leave":
            sys.exit(0)
        case _:
            pass
