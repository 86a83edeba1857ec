"""Runs Python in processes that have begun already: forks of one that has imported what they begin with.

To import JAX and the command line takes longer than most commands do. Each fork has its own memory, environment, folder and output, as a
process of `tests.processes.run_python` has. What it finds imported must be what it would import itself: else nobody would notice that it
forgot to.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.processes import PROCESS_TIMEOUT_WALL_S, ROOT, SETTINGS, clean_environ

JAX: Final = "jax"  # what programs begin with
COMMAND: Final = "tilestep.cli"  # what `python -m tilestep` begins with
_AS_IMPORTED: Final = "XLA_FLAGS"  # of the settings, the one that is read when a first program is compiled, not when JAX is imported
# One thread of OpenBLAS is the process itself: others would not live in a fork.
_ALONE: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

# A line of its stdin asks for a fork: {imports, arguments, folder, environ, files: of stdin, stdout and stderr}.
# It answers with two lines, the process's id and its exit status. A fork leaves the loop, and ends as any process does.
_SERVER: Final = """
import gc, importlib, json, os, sys
def forked():
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in asked:
        request = json.loads(line)
        for name in request["imports"]:
            if name not in sys.modules:
                importlib.import_module(name)
                gc.collect()
                gc.freeze()
        process = os.fork()
        if process == 0:
            asked.close()
            answers.close()
            return request
        print(process, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), file=answers, flush=True)
def begun(first, *others):
    import runpy, types
    if first == "-m":
        sys.argv, sys.path[0] = [others[0], *others[1:]], os.getcwd()
        return lambda: runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    if first == "-c":
        sys.argv, sys.path[0] = ["-c", *others[1:]], ""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        return lambda: exec(others[0], main.__dict__)
    sys.argv, sys.path[0] = [first, *others], os.path.dirname(os.path.abspath(first))
    return lambda: runpy.run_path(first, run_name="__main__")
request = forked()
if request is not None:
    for number, (file, flags) in enumerate(zip(request["files"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
        opened = os.open(file, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    begun(*request["arguments"])()
"""

_servers: dict[str, subprocess.Popen[bytes]] = {}


def run_forked(
    begun: str,
    *arguments: str,
    also: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    text_in: str | None = None,
    folder: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """What `run_python` does and returns, by a fork of a process that has imported a module.

    Args:
        begun: `JAX` or `COMMAND`.
        arguments: of Python: a script, '-c' or '-m', with what follows.
        also: further modules that are imported before, by this fork and later ones.
        environ: added to a clean environment. Settings that are read when JAX is imported can't be among it.
        text_in: stdin.
        folder: to run in.
    """
    given = dict(environ or {})
    late = [name for name in given if SETTINGS.fullmatch(name) and name != _AS_IMPORTED]
    if late or not hasattr(os, "fork"):
        raise ValueError(f"a fork reads {late} too late")
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / stream for stream in ("in", "out", "err")]
        for file, text in zip(files, (text_in or "", "", ""), strict=True):
            file.write_text(text, encoding="utf-8")
        request = {
            "imports": [begun, *also],
            "arguments": arguments,
            "folder": str(folder),
            "environ": clean_environ(os.environ) | given,
            "files": list(map(str, files)),
        }
        status = _asked(_server(begun), json.dumps(request))
        out, err = (file.read_text(encoding="utf-8") for file in files[1:])
    return subprocess.CompletedProcess((sys.executable, *arguments), status, out, err)


def _server(begun: str) -> subprocess.Popen[bytes]:
    """The process that forks, for those that begin with one module."""
    server = _servers.get(begun)
    if server is None or server.poll() is not None:
        environ = clean_environ(os.environ) | _ALONE
        server = subprocess.Popen(
            (sys.executable, "-c", _SERVER), cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )  # without a buffer no line is read before it is asked for
        _servers[begun] = server
    return server


def _asked(server: subprocess.Popen[bytes], request: str) -> int:
    """The exit status of the process that a server forks. Raises: TimeoutExpired, as `run_python` does, when it has ended that process."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{request}\n".encode())
    process = int(server.stdout.readline())
    if not select.select([server.stdout], [], [], PROCESS_TIMEOUT_WALL_S)[0]:
        os.kill(process, signal.SIGKILL)
        server.stdout.readline()
        raise subprocess.TimeoutExpired(request, PROCESS_TIMEOUT_WALL_S)
    return int(server.stdout.readline())


@atexit.register
def _end() -> None:  # pyright: ignore[reportUnusedFunction]
    for server in _servers.values():
        server.communicate()  # no further line: it ends
