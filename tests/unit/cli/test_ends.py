"""What a program under `tilestep run` leaves running ends as under plain Python, and the summary comes all the same, in any locale."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.in_turn import RunPython
from tests.processes import ROOT
from tests.processes import run_python as run_alone

NOTHING_RAN = "tilestep: nothing ran on bow-2000"
LEAVES = """
    import asyncio, atexit, multiprocessing, sys, threading, time
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    def square(x):
        return x * x

    def work(words):
        if words:
            import jax
            jax.jit(lambda x: x + 1)(1.0).block_until_ready()
        print("work of a pool\\n", end="", flush=True)

    async def leaves_an_executor():
        loop = asyncio.get_running_loop()
        print(await loop.run_in_executor(None, lambda: 3), flush=True)
        loop.run_in_executor(None, lambda: (idle.wait(), print("late work of a loop\\n", end="", flush=True)))

    def follow():
        while threading.main_thread().is_alive():
            time.sleep(0.01)
        threading.main_thread().join()
        threading.Thread(target=lambda: print("started by one that followed the main thread\\n", end="", flush=True)).start()

    if __name__ == "__main__":
        atexit.register(lambda: print(repr(sys.last_value), sys.last_type, file=sys.stderr))
        spawn = multiprocessing.get_context("spawn")
        idle, told = threading.Event(), threading.Event()
        processes = ProcessPoolExecutor(1, mp_context=spawn)
        print(processes.submit(square, 3).result(), flush=True)
        pool = spawn.Pool(1)
        print(pool.map(square, [1, 2, 3]), flush=True)
        threads = ThreadPoolExecutor(1)
        threads.submit(lambda: (idle.wait(), work(sys.argv[1:])))
        asyncio.new_event_loop().run_until_complete(leaves_an_executor())
        threading._register_atexit(told.set)
        threading.Thread(target=lambda: (told.wait(), print("told of Python's end\\n", end="", flush=True))).start()
        threading.Thread(target=follow).start()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        threading.Thread(target=lambda: (told.wait(), idle.set())).start()
        1 / 0
"""


@pytest.mark.process
def test_what_a_program_leaves_ends_as_under_python_and_its_work_is_in_the_profile(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(textwrap.dedent(LEAVES))
    plain, ours = run_alone(str(script)), run_alone("-m", "tilestep", "run", str(script), "on the IPU")
    assert ours.returncode == plain.returncode == 1
    assert sorted(ours.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert len(ours.stdout.splitlines()) == 7
    *trace, last = plain.stderr.splitlines()
    *told, ours_last = ours.stderr.splitlines()
    assert told[: len(trace)] == trace
    assert ours_last == last == "ZeroDivisionError('division by zero') <class 'ZeroDivisionError'>", "callbacks at exit come last"
    assert "emulated on bow-2000" in ours.stderr
    assert "jit__lambda" in ours.stderr


LOCALES = ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "1"})
CODES = ("print('é', '\U0001f600')".encode(), b"print('\xff')", b"# -*- coding: latin-1 -*-\nprint('\xc3\xa9')")
FAST = {(1, 2)}  # of (locale, code): what is no UTF-8, in one without UTF-8


@pytest.mark.process
@pytest.mark.parametrize(
    ("environ", "code"),
    [
        pytest.param(environ, code, marks=[] if (i, j) in FAST else [pytest.mark.slow])
        for i, environ in enumerate(LOCALES)
        for j, code in enumerate(CODES)
    ],
)
def test_code_in_any_locale_runs_as_under_python(environ: dict[str, str], code: bytes) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            (sys.executable, *words, "-c", code), cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environ}, capture_output=True, check=False
        )

    plain, ours = run(), run("-m", "tilestep", "run")
    told, _, summary = ours.stderr.partition(f"\n{NOTHING_RAN}".encode())
    assert (ours.returncode, ours.stdout, told) == (plain.returncode, plain.stdout, plain.stderr)
    assert summary


def test_code_that_is_no_utf8_is_told_as_python_tells_it(run_python: RunPython) -> None:
    code = "print('\udcff')"
    plain, ours = run_alone("-c", code), run_python("-m", "tilestep", "run", "-c", code)
    told, _, summary = ours.stderr.partition(f"\n{NOTHING_RAN}")
    assert (ours.returncode, ours.stdout, told) == (plain.returncode, plain.stdout, plain.stderr)
    assert summary
