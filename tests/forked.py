"""Python processes at a fraction of their price: forks of one that has imported JAX, and for most the emulator, and started no platform.

A program sees what it would see in a process of its own, except that modules are there before it imports them, and that its stack has a
frame of the template. So these functions suit programs that are about what a platform does, or what is decided when it starts. A program
that is about imports, stacks, threads at the process's end or garbage takes a process of its own (tests/processes.py,
tests/behaviour/process.py). In `make test-all` each program does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from tests.processes import PROCESS_TIMEOUT_WALL_S, ROOT, clean_environ

JAX: Final = ("numpy", "jax")
EMULATOR: Final = (
    *JAX,
    "jaxlib.mlir.dialects.mhlo",
    "tilestep.cli",
    "tilestep.pjrt.plugin",
    "tilestep.pjrt.programs.executable_entries",
    "tilestep.pjrt.running.profiler",
    "tilestep.pjrt.table.client",
    "tilestep.report.page",
    "tilestep.report.xspace",
    "onnx",
    "optax",
    "sklearn.datasets",
)
_READ_LATE: Final = re.compile(
    "TILESTEP_.*|JAX_IPU_.*|POPLAR_ENGINE_OPTIONS|JAX_PLATFORMS|XLA_FLAGS|PYTEST_.*"
)  # when a platform starts, or later
_READ_BY_TILESTEP: Final = re.compile("PVTI_OPTIONS")  # when it is imported


@final
class _Template:
    """A process that has imported modules. One fork of it runs at a time."""

    def __init__(self, modules: Sequence[str], environ: Mapping[str, str]) -> None:
        own, its = socket.socketpair()
        words = (sys.executable, "-X", "faulthandler", "-c", Path(__file__).with_name("template.py").read_text(), str(its.fileno()))
        with its:
            self._process = subprocess.Popen(
                (*words, *modules),
                cwd=ROOT,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[its.fileno()],
            )  # pipes, as its forks have them: Python's streams know what they are
        own.settimeout(PROCESS_TIMEOUT_WALL_S)
        self._connection = own
        self._fork = 0  # that is under way
        self.environ = dict(environ)
        self.busy = threading.Lock()
        atexit.register(self._end, os.getpid())

    def run(self, request: Mapping[str, object], text_in: str | None) -> tuple[int, str, str]:
        """Exit status, output and errors of a fork. After whatever it raises, `kill` must be called. Raises: TimeoutError."""
        (stdin, write), (read_out, stdout), (read_errors, stderr) = (os.pipe() for _ in range(3))
        message = json.dumps(request).encode()
        socket.send_fds(self._connection, [len(message).to_bytes(8, "little")], [stdin, stdout, stderr])
        for number in (stdin, stdout, stderr):
            os.close(number)
        self._connection.sendall(message)
        self._fork = self._number()
        texts: dict[int, str] = {}
        readers = [threading.Thread(target=_read, args=(number, texts), daemon=True) for number in (read_out, read_errors)]
        for reader in readers:
            reader.start()
        with contextlib.suppress(BrokenPipeError), open(write, "w") as given:
            given.write(text_in or "")
        status, self._fork = self._number(), 0
        for reader in readers:
            reader.join(PROCESS_TIMEOUT_WALL_S)
        return status, texts[read_out], texts[read_errors]

    def kill(self) -> None:
        """Ends the process, and the fork that is under way."""
        self._process.kill()
        if self._fork:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._fork, signal.SIGKILL)

    def _end(self, owner: int) -> None:
        if os.getpid() == owner:
            self._connection.close()
            self._process.communicate()

    def _number(self) -> int:
        answer = self._connection.recv(8, socket.MSG_WAITALL)
        assert answer, f"the template of forks has ended: {self._process.communicate()[1]}"
        return int.from_bytes(answer, "little", signed=True)


def _read(number: int, texts: dict[int, str]) -> None:
    with open(number) as file:
        texts[number] = file.read()


@functools.cache
def _template(modules: Sequence[str], process: int) -> _Template:
    """Args: process: this one; a fork of it has templates of its own."""
    return _Template(modules, clean_environ(os.environ))


def _run(
    words: Sequence[str],
    *,
    environ: Mapping[str, str],
    folder: Path = ROOT,
    text_in: str | None = None,
    strict: bool = False,
    modules: Sequence[str] = EMULATOR,
) -> subprocess.CompletedProcess[str]:
    """Runs `python WORDS...`; in a process of its own if a variable must be there when Python or JAX begins, or a fork is under way."""
    if os.environ.get("XLA_FLAGS"):
        template = _template(modules, os.getpid())
        differ = {name for name, _ in environ.items() ^ template.environ.items()}
        late = all(_READ_LATE.fullmatch(name) or (modules == JAX and _READ_BY_TILESTEP.fullmatch(name)) for name in differ)
        if late and template.busy.acquire(blocking=False):
            try:
                request = {"words": words, "environ": dict(environ), "folder": str(folder), "strict": strict}
                return subprocess.CompletedProcess([sys.executable, *words], *template.run(request, text_in))
            except BaseException:
                template.kill()
                _template.cache_clear()
                raise
            finally:
                template.busy.release()
    options = ["-W", "error"] if strict else []
    return subprocess.run(
        (sys.executable, *options, "-X", "faulthandler", *words),
        cwd=folder,
        env=environ,
        input=text_in,
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_WALL_S,
        check=False,
    )


def run_python(
    *words: str,
    environ: Mapping[str, str] | None = None,
    text_in: str | None = None,
    folder: Path = ROOT,
    modules: Sequence[str] = EMULATOR,
) -> subprocess.CompletedProcess[str]:
    """As that of tests/processes.py. Args: modules: what the process has imported before."""
    return _run(words, environ=clean_environ(os.environ) | dict(environ or {}), text_in=text_in, folder=folder, modules=modules)


def attempt(
    code: str, *, strict: bool = True, folder: Path = ROOT, modules: Sequence[str] = EMULATOR, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a folder with environment variables `settings`; with `strict`, warnings are errors.

    Args: modules: what the process has imported before. JAX suits programs about what tilestep does when it is imported.
    """
    environ = clean_environ(os.environ) | settings
    return _run(("-c", textwrap.dedent(code)), environ=environ, folder=folder, strict=strict, modules=modules)


def python(
    code: str, *, strict: bool = True, folder: Path = ROOT, modules: Sequence[str] = EMULATOR, **settings: str
) -> subprocess.CompletedProcess[str]:
    """As `attempt`, but the process has to end well."""
    result = attempt(code, strict=strict, folder=folder, modules=modules, **settings)
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result
