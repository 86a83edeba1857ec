"""A job of two processes goes on whatever strangers send, listens at one address, and ends at once where a watchdog dies."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import clean_environ

from .listening import flood, listens, wait_until_joined, watchdog_of
from .several import ROOT, Ended, free_port, started

PROGRAM = Path(__file__).with_name("processes_waiting.py")
LIMIT_WALL_S = 100.0
TIMEOUT_S = 8
HOST_0 = "127.0.0.2"  # which Linux has, too: so it is seen who listens where process 0 does


class Job:
    """Two processes, and how they ended."""

    def __init__(self, host: str, port: int, how: str) -> None:
        settings = clean_environ({"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"})
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-u", str(PROGRAM), str(process), "2", f"{host}:{port}", str(TIMEOUT_S), how],
                env=settings,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for process in range(2)
        ]

    def wait_until_ready(self) -> None:
        for process in self.processes:
            assert process.stdout is not None
            while "ready" not in (line := process.stdout.readline()):
                assert line, process.communicate()

    def ended(self) -> list[Ended]:
        found: list[Ended] = []
        for process in self.processes:
            out, err = process.communicate(timeout=LIMIT_WALL_S)
            found.append(Ended(status=process.returncode, out=out, err=err))
        return found


@contextmanager
def job(host: str, port: int, how: str) -> Iterator[Job]:
    found = Job(host, port, how)
    try:
        yield found
    finally:
        for process in found.processes:
            if process.poll() is None:
                process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


@pytest.mark.slow
def test_a_job_goes_on_whatever_strangers_send_and_listens_at_one_address() -> None:
    port, strangers, is_ready = free_port(), list[socket.socket](), threading.Event()

    def knock() -> None:
        """At process 0's door, then at JAX's coordinator, while all start."""
        while not is_ready.wait(0.5) and len(strangers) < 200:
            strangers.extend(flood((HOST_0, port), 50))

    thread = threading.Thread(target=knock)
    with job(HOST_0, port, "meet") as running:
        thread.start()
        running.wait_until_ready()
        is_ready.set()
        thread.join()
        first, second = running.processes
        watchdogs = watchdog_of(first.pid), watchdog_of(second.pid)
        at_0, at_1 = listens(first.pid), listens(second.pid)
        hub = listens(watchdogs[0])
        assert {host for host, _ in at_0} == {host for host, _ in hub} == {HOST_0}
        assert (HOST_0, port) in at_0
        assert {host for host, _ in at_1} == {"127.0.0.1"}
        assert (len(hub), listens(watchdogs[1])) == (1, set())
        # Of docs/reference/network.md: JAX's coordinator in process 0, Gloo's and two of the transfer server in each.
        assert (len(at_0), len(at_1)) == (4, 3)
        words = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:-1] for pid in watchdogs]
        assert {tuple(Path(os.fsdecode(word)).name for word in own) for own in words} == {("-I", "-S", "run_watchdog.py")}  # no secret
        strangers += flood(next(iter(hub)), 200)
        for process in running.processes:
            assert process.poll() is None, process.communicate()
        assert first.stdin is not None
        first.stdin.write("end\n")
        first.stdin.flush()
        strangers += flood(next(iter(hub)), 200)
        for end in running.ended():
            assert (end.status, end.lines[-1:]) == (0, ["end 1.0"]), end
            said = [line for line in end.err.splitlines() if "for JAX to join all processes" not in line]  # on a busy machine
            assert "tilestep" not in "\n".join(said), end
    for stranger in strangers:
        stranger.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("process", "number", "how"),
    [
        (0, signal.SIGKILL, "has ended with status -9"),
        (1, signal.SIGKILL, "has ended with status -9"),
        (0, signal.SIGSTOP, "has given no sign of life for 8 s"),
    ],
)
def test_processes_end_when_a_watchdog_does(process: int, number: signal.Signals, how: str) -> None:
    with job("localhost", free_port(), "sleep") as running:
        running.wait_until_ready()
        watchdogs = [watchdog_of(one.pid) for one in running.processes]
        wait_until_joined(*watchdogs)
        watchdog = watchdogs[process]
        os.kill(watchdog, number)
        ended = running.ended()  # which the watchdog's end is a part of: it has the process's stderr, too
    own, other = ended[process], ended[1 - process]
    assert f"tilestep: the watchdog of process {process} (pid {watchdog}) {how}; process {process} ends, too" in own.err.splitlines()
    assert own.status == 1, own
    assert other.status in (1, -signal.SIGABRT), other  # by its own watchdog's word, or because JAX's coordinator is gone
    said = "process 0's machine " if process == 0 else "process 1 of 2 "
    assert [line for line in other.err.splitlines() if line.startswith(f"tilestep: {said}")], other


@pytest.mark.slow
def test_a_job_that_cannot_start_says_why() -> None:
    """The port is in use; numbers of processes differ; a process number is none."""
    with socket.create_server(("localhost", 0)) as other:
        used, port = other.getsockname()[1], free_port()
        places = [(0, 2, used), (0, 2, port), (1, 3, port), (2, 2, free_port())]
        commands = [[str(process), str(count), f"localhost:{number}", str(TIMEOUT_S), "sleep"] for process, count, number in places]
        ended = started([[sys.executable, "-u", str(PROGRAM), *command] for command in commands], limit_wall_s=LIMIT_WALL_S)
    assert [end.status for end in ended] == [1] * 4
    in_use, one, another, no_number = [end.err.splitlines()[-1] for end in ended]
    assert in_use == (
        f"OSError: [Errno 98] process 0 of 2 cannot listen at 127.0.0.1:{used} (coordinator_address 'localhost:{used}'): Address already "
        "in use; another program has that port, or an earlier run: end it, or give all processes another port in coordinator_address"
    )
    assert one == another
    assert one == "ValueError: process 1 was started with num_processes=3, and process 0 with num_processes=2: give all the same"
    assert no_number == "ValueError: process_id is 2: with num_processes=2 it must be 0 to 1"
