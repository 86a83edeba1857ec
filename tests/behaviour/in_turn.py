"""Programs that run one after the other in one process, each as if it had the process to itself.

Before a program the platforms are started anew, with the program's own variables. After it its trace and its report are written, as at the
end of a process. What Python or JAX decides only once (imports, exits, threads at the end) needs a process of its own (process.py).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.processes import ROOT

from .process import LIMIT_WALL_S, environment

_process: subprocess.Popen[str] | None = None


def _running() -> subprocess.Popen[str]:
    """The process. It starts with the first program, and again after one that has taken it down."""
    global _process
    if _process is None:
        atexit.register(_end)
    if _process is None or _process.poll() is not None:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.behaviour.in_turn"]
        _process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return _process


def _end() -> None:
    if _process is not None:
        _process.communicate()


def attempt(code: str, *, folder: Path = ROOT, strict: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
    """How `code` ends in a folder with environment variables `settings`; with `strict`, warnings are errors."""
    process = _running()
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"code": textwrap.dedent(code), "folder": str(folder), "strict": strict, "environ": environment(settings)}
    limit = threading.Timer(LIMIT_WALL_S, process.kill)
    limit.start()
    try:
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    finally:
        limit.cancel()
    assert answer, f"the process has ended with status {process.wait()}"
    return subprocess.CompletedProcess(code, **json.loads(answer))


def python(code: str, *, folder: Path = ROOT, strict: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
    """As `attempt`, but the program has to end well."""
    ended = attempt(code, folder=folder, strict=strict, **settings)
    assert ended.returncode == 0, f"exit status {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended


def _start_anew(environ: Mapping[str, str]) -> None:
    """Starts the platforms with variables. In between they have others, so that the machine's journal begins anew."""
    import jax

    from tilestep.settings import JAX_OPTIONS, UNSET

    for each in ({"JAX_IPU_MODEL_NUM_TILES": "1"}, environ):
        os.environ.clear()
        os.environ.update(each)
        for option in JAX_OPTIONS:
            option.given = UNSET
        jax.config.update("jax_platforms", each.get("JAX_PLATFORMS"))
        jax.config.update("jax_platform_name", each.get("JAX_PLATFORM_NAME", ""))
        jax.config.update("jax_default_device", None)
        jax.extend.backend.clear_backends()
        gc.collect()
        if each is not environ:
            jax.devices("ipu")


def _run(code: str, environ: Mapping[str, str], folder: str, *, strict: bool) -> int:
    from tilestep import tracing
    from tilestep.pjrt.plugin import _add_emulated, _write_report  # pyright: ignore[reportPrivateUsage]
    from tilestep.tracing.process import include, start_if_asked

    _start_anew(environ)
    os.chdir(folder)
    modules = set(sys.modules)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "always")
        start_if_asked()
        include(_add_emulated)
        try:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
            return 0
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            gc.enable()
            _write_report()
            tracing.close()
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                    del sys.modules[name]


def _serve() -> None:
    import jax.extend.backend  # noqa: F401  # before the first program

    import tilestep  # noqa: F401

    sys.path[0] = ""  # the folder of a program
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed past Python's streams is no answer
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = _run(request["code"], request["environ"], request["folder"], strict=request["strict"])
        print(json.dumps({"returncode": status, "stdout": out.getvalue(), "stderr": err.getvalue()}), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
