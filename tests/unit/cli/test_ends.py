"""A program under `tilestep run` ends as plain Python ends it, whatever it leaves running, and the summary comes all the same."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import processes
from tests.forked import run_python
from tests.processes import ROOT

NOTHING_RAN = "tilestep: nothing ran on bow-2000"
LEFT = {  # programs that leave something behind
    "a pool of threads": """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(1)
        print(pool.submit(lambda: 42).result())
    """,
    "a pool of threads with work to do": """
        from concurrent.futures import ThreadPoolExecutor
        import time
        pool = ThreadPoolExecutor(1)
        for k in range(3):
            pool.submit(lambda k=k: (time.sleep(0.1), print(k, flush=True)))
    """,
    "a pool of processes": """
        from concurrent.futures import ProcessPoolExecutor
        import multiprocessing, time
        def square(x): return x * x
        if __name__ == "__main__":
            pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            print(pool.submit(square, 3).result(), flush=True)
            pool.submit(time.sleep, 0.2)
    """,
    "a pool of multiprocessing": """
        import multiprocessing
        def square(x): return x * x
        if __name__ == "__main__":
            pool = multiprocessing.get_context("spawn").Pool(1)
            print(pool.map(square, [1, 2, 3]))
    """,
    "the executor of an asyncio loop": """
        import asyncio, time
        async def main():
            loop = asyncio.get_running_loop()
            print(await loop.run_in_executor(None, lambda: 3), flush=True)
            loop.run_in_executor(None, lambda: (time.sleep(0.1), print("late", flush=True)))
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
    """,
    "a thread that waits for Python's end": """
        import threading
        told = threading.Event()
        threading._register_atexit(told.set)
        threading.Thread(target=lambda: (told.wait(), print("told"))).start()
    """,
    "a thread that waits for the main thread": """
        import threading, time
        def follow():
            while threading.main_thread().is_alive():
                time.sleep(0.01)
            threading.main_thread().join()
            print("followed")
        threading.Thread(target=follow).start()
    """,
    "a thread that starts another": """
        import threading, time
        def first():
            time.sleep(0.1)
            threading.Thread(target=lambda: print("second")).start()
        threading.Thread(target=first).start()
    """,
    "a daemon": """
        import threading, time
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        print("main")
    """,
    "a callback that looks at what ended it": """
        import atexit, sys
        atexit.register(lambda: print(repr(sys.last_value), sys.last_type, sys.last_traceback.tb_lineno))
        1 / 0
    """,
    "a hook that fails": """
        import sys
        def hook(kind, value, trace):
            raise LookupError("in the hook")
        sys.excepthook = hook
        1 / 0
    """,
    "a hook that exits": """
        import sys
        sys.excepthook = lambda *unused: sys.exit(7)
        1 / 0
    """,
    "no stderr": "import sys; sys.stderr = None; sys.exit('unheard')",
}


@pytest.mark.parametrize("what", LEFT)
def test_a_program_that_leaves_something_ends_as_under_python(what: str, tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(textwrap.dedent(LEFT[what]))
    plain, ours = processes.run_python(str(script)), run_python("-m", "tilestep", "run", str(script))
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    told, _, summary = ours.stderr.partition(f"\n{NOTHING_RAN}")
    assert told == plain.stderr
    assert summary


def test_work_of_a_pool_that_nobody_waits_for_is_in_the_profile() -> None:
    code = """
        from concurrent.futures import ThreadPoolExecutor
        import time, jax
        pool = ThreadPoolExecutor(1)
        pool.submit(lambda: (time.sleep(0.3), print(jax.jit(lambda x: x + 1)(1.0))))
    """
    done = run_python("-m", "tilestep", "run", "-c", textwrap.dedent(code))
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
    assert "emulated on bow-2000" in done.stderr
    assert "jit__lambda" in done.stderr


def test_callbacks_at_exit_come_after_the_summary() -> None:
    done = run_python("-m", "tilestep", "run", "-c", "import atexit, sys; atexit.register(print, 'last', file=sys.stderr)")
    assert done.returncode == 0
    assert done.stderr.endswith("\nlast\n")
    assert done.stderr.startswith(f"\n{NOTHING_RAN}")


LOCALES = ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "1"})
CODES = ("print('é', '\U0001f600')".encode(), b"print('\xff')", b"# -*- coding: latin-1 -*-\nprint('\xc3\xa9')")
FAST = {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 2), (3, 1)}  # of (locale, code): each of both, and all in the one without UTF-8


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
