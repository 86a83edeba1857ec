"""One Python process that runs programs in turn, each as if it were the first: starting Python, JAX and the platform costs two seconds.

A program finds the arguments, variables, folder, streams and modules that it would find in a process of its own, and JAX without platforms
that have started. What it prints to the streams' numbers is told, too. Behind it its trace and its report are written, as at the end of a
process. A program that is about imports, the process's end, signals that end it, or what threads and callbacks do behind its end takes a
process of its own (tests/processes.py). In `make test-all` each program does.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, final

from tests import processes
from tests.processes import PROCESS_TIMEOUT_WALL_S, ROOT, clean_environ

RunPython = Callable[..., CompletedProcess[str]]  # as `run_python` of tests/processes.py


@final
class InTurn:
    """The process, which starts when the first program is run, and again behind a program that ended it.

    Args: environ: variables that are read when Python or JAX begins.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[str] | None = None

    def run_python(
        self, *words: str, environ: Mapping[str, str] | None = None, text_in: str = "", folder: Path = ROOT, strict: bool = False
    ) -> CompletedProcess[str]:
        """Runs `python WORDS...`: a script, -c CODE, or `-m tilestep COMMAND...`. Args: strict: whether warnings are errors."""
        if not os.environ.get("XLA_FLAGS"):
            both = self._environ | dict(environ or {})
            return processes.run_python(*words, environ=both, text_in=text_in, folder=folder, strict=strict)
        whole = clean_environ(self._environ | dict(environ or {}))
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([words, whole, str(folder), text_in, strict]), file=process.stdin, flush=True)
        ready, _, _ = select.select([process.stdout], [], [], PROCESS_TIMEOUT_WALL_S)
        answer = process.stdout.readline() if ready else ""
        if not answer:
            _, told = self.end()
            raise AssertionError(f"{'the process has ended' if ready else 'no end came'}: {words}\n{told}")
        return CompletedProcess([sys.executable, *words], *json.loads(answer))

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (sys.executable, "-X", "faulthandler", "-c", Path(__file__).read_text()),  # without a file: its lines are not a program's
            cwd=ROOT,
            env=clean_environ(self._environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[str, str]:
        """Kills the process; returns what it printed by itself."""
        process, self._process = self._process, None
        if process is None:
            return "", ""
        process.kill()
        return process.communicate()


@contextlib.contextmanager
def in_turn(**environ: str) -> Iterator[RunPython]:
    """Inside, its `run_python` runs programs in a process that started with variables that are read when Python or JAX begins."""
    process = InTurn(environ)
    try:
        yield process.run_python
    finally:
        process.end()


@functools.cache
def _shared(owner: int) -> InTurn:
    """The process that the tests of a process share. Args: owner: this process; a fork of it has another."""
    process = InTurn()

    def end() -> None:
        if os.getpid() == owner:
            process.end()

    atexit.register(end)
    return process


def run_python(
    *words: str, environ: Mapping[str, str] | None = None, text_in: str = "", folder: Path = ROOT, strict: bool = False
) -> CompletedProcess[str]:
    """As `InTurn.run_python`, in the process that all tests of this process share."""
    return _shared(os.getpid()).run_python(*words, environ=environ, text_in=text_in, folder=folder, strict=strict)


def attempt(code: str, *, strict: bool = True, folder: Path = ROOT, **settings: str) -> CompletedProcess[str]:
    """How `code` ends in a folder with environment variables `settings`; with `strict`, warnings are errors."""
    return run_python("-c", textwrap.dedent(code), environ=settings, folder=folder, strict=strict)


def python(code: str, *, strict: bool = True, folder: Path = ROOT, **settings: str) -> CompletedProcess[str]:
    """As `attempt`, but the program has to end well."""
    return processes.ended_well(attempt(code, strict=strict, folder=folder, **settings))


def serve() -> None:
    """Runs each program that a line of stdin asks for, and answers by a line of stdout: exit status, output and errors."""
    import gc
    import linecache

    linecache.cache.pop("<string>", None)  # since Python 3.13 it has the lines of this file, which are no program's
    requests, answers, own_errors = (os.fdopen(os.dup(number), mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    import jax

    import tilestep.cli

    del jax, tilestep
    gc.collect()
    gc.freeze()
    for request in requests:
        answer = _answer(*json.loads(request))
        for number in (1, 2):
            os.dup2(own_errors.fileno(), number)
        print(json.dumps(answer), file=answers, flush=True)


def _answer(words: list[str], environ: dict[str, str], folder: str, text_in: str, strict: bool) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(text_in.encode())
        given.seek(0)
        for number, file in enumerate((given, out, errors)):
            os.dup2(file.fileno(), number)
        with _as_at_the_start(environ, folder, strict=strict):
            status = _status(words)
        told: list[str] = []
        for file in (out, errors):
            file.seek(0)
            told.append(file.read().decode(errors="replace"))
        return status, told[0], told[1]


def _status(words: list[str]) -> int:
    from tilestep.profiling.plugin import add_emulated, write_report
    from tilestep.tracing import process as tracing

    process = os.getpid()
    try:
        tracing.start_if_asked()
        tracing.include(add_emulated)
        _run(words)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else end.code is not None
        if status is True:
            print(end.code, file=sys.stderr)
    except BaseException as error:
        trace: Any = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 1
    if os.getpid() != process:  # a fork of the program has come here
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
    _join_threads()
    write_report()
    tracing.close()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    return int(status)


def _run(words: list[str]) -> None:
    kind, *others = words
    if kind == "-m":
        assert others[0] == "tilestep"
        from tilestep.cli import main

        sys.argv[:] = ["-m", *others[1:]]
        sys.path.insert(0, os.getcwd())
        raise SystemExit(main(others[1:]))
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    if kind == "-c":
        name, text = "<string>", others.pop(0)
        sys.argv[:] = ["-c", *others]
        sys.path.insert(0, "")
    else:
        name = space["__file__"] = kind
        text = Path(name).read_text(encoding="utf-8")
        sys.argv[:] = words
        sys.path.insert(0, str(Path(name).resolve().parent))
    exec(compile(text, name, "exec", dont_inherit=True), space)


def _join_threads() -> None:
    """What Python waits for at its end, except for idle pools, which only that ends."""
    import threading
    from concurrent.futures import thread

    pools: Any = thread._threads_queues  # type: ignore[attr-defined]
    for each in threading.enumerate():
        if not each.daemon and each is not threading.main_thread() and each not in pools:
            each.join()


@contextlib.contextmanager
def _as_at_the_start(environ: dict[str, str], folder: str, *, strict: bool) -> Iterator[None]:
    """Inside, the process's state is that of one that has just started; behind it, it is what it was."""
    import gc
    import threading
    import warnings

    import jax
    from jax.extend.backend import clear_backends

    from tilestep.settings import JAX_OPTIONS, UNSET

    threads: Any = threading
    config: Any = jax.config
    before = dict(config.values)
    kept = (sys.argv, sys.path, sys.meta_path, sys.modules, os.environ)
    copies = [each.copy() for each in kept]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)}
    shutdown, hook, streams = threads._shutdown, sys.excepthook, (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    for name in ("platforms", "platform_name"):
        if given := environ.get(f"JAX_{name.upper()}"):
            config.update(f"jax_{name}", given)  # JAX has read its variables already
    threads._shutdown = _join_threads  # a process can do it once
    try:
        with warnings.catch_warnings():
            if strict:
                warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        threads._shutdown, sys.excepthook = shutdown, hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        _restore_modules(copies[3])
        for each, copy in zip(kept, copies, strict=True):
            if each is not sys.modules:
                each.clear()
                each.extend(copy) if isinstance(each, list) else each.update(copy)
        sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        os.chdir(ROOT)
        clear_backends()
        if client := sys.modules.get("tilestep.pjrt.table.client"):
            client._client = None  # type: ignore[attr-defined]  # else it stays where the settings are the same
        for name, value in before.items():
            if config.values[name] != value:
                config.update(name, value)
        for option in JAX_OPTIONS:
            option.given = UNSET
        gc.enable()
        gc.collect()


def _restore_modules(before: dict[str, Any]) -> None:
    """Forgets modules of programs. Those of packages stay, and so do the project's."""
    import sysconfig

    stay = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(ROOT / "src"))
    for name in [name for name in sys.modules if name not in before]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if name.partition(".")[0] in ("popart", "popart_core") or (file and not file.startswith(stay)):
            del sys.modules[name]
    if "tilestep.popart" not in before and sys.modules.pop(
        "tilestep.popart", None
    ):  # `tilestep run` asks whether a program has imported it
        del sys.modules["tilestep"].popart  # type: ignore[attr-defined]
    sys.modules.update(before)


if __name__ == "__main__":
    serve()
