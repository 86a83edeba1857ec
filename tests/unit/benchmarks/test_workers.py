"""Workers share the work, and do not outlive the process that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.measured.workers import shared
from tests.processes import ROOT, clean_environ

_PATIENCE_WALL_S = 60
# Each worker writes its id, and then works longer than any test waits.
_SCRIPT = """
import os, sys, time
from pathlib import Path

from benchmarks.measured.workers import shared


def work(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


if __name__ == "__main__":
    list(shared(work, [sys.argv[1]] * 3, 2))
"""


def negative(number: int) -> int:
    if number == 0:
        raise ValueError("0 has no sign")
    return -number


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # a zombie has ended


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_WALL_S
    while not is_so():
        assert time.monotonic() < deadline, f"after {_PATIENCE_WALL_S} s it is not so that {what}"
        time.sleep(0.02)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "ids"
    script.write_text(_SCRIPT, encoding="utf-8")
    folder.mkdir()
    environ = clean_environ() | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, str(script), str(folder)], env=environ) as parent:
        try:
            wait_until("both workers have begun", lambda: len(list(folder.iterdir())) == 2)
            workers = [int(path.name) for path in folder.iterdir()]
            assert all(is_alive(worker) for worker in workers)
        finally:
            parent.send_signal(number)
    assert parent.returncode == -number
    wait_until("both workers have ended", lambda: not any(is_alive(worker) for worker in workers))


@pytest.mark.process
def test_results_come_from_all_and_an_error_ends_the_rest() -> None:
    assert sorted(shared(negative, [1, 2, 3], 2)) == [-3, -2, -1]
    with pytest.raises(ValueError, match="0 has no sign"):
        list(shared(negative, [0, *range(1, 50)], 1))
