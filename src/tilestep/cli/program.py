"""Runs a Python program in this process as `python` itself would: its names, its path, its tracebacks, its exit code."""

from __future__ import annotations

import builtins
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import threading
import types
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tilestep.cli.terminated import Terminated, told_first
from tilestep.cli.usage import INTERRUPTED

_UNDECODABLE: Final = "Unable to decode the command from the command line:"


@dataclass(frozen=True, kw_only=True)
class ScriptProgram:
    """A Python file; or a directory or zip file with a __main__.py."""

    name: str  # as the user wrote it
    arguments: tuple[str, ...] = ()

    def execute(self) -> None:
        """Runs the program. Raises: the exceptions of the program."""
        sys.argv[:] = [self.name, *self.arguments]
        filename = self.name if os.path.isabs(self.name) else os.path.join(Path.cwd(), self.name)  # as python has it: '.' and links stay
        if os.path.isdir(filename) or _is_archive(filename):
            _replace_path_start(filename)
            _execute_spec(importlib.machinery.PathFinder.find_spec("__main__", [filename]), self.name)
            return
        _replace_path_start(str(Path(filename).resolve().parent))
        main = _main_module(__file__=filename, __cached__=None, __loader__=importlib.machinery.SourceFileLoader("__main__", filename))
        with io.open_code(filename) as file:
            code = compile(file.read(), filename, "exec", dont_inherit=True)
        exec(code, main)


@dataclass(frozen=True, kw_only=True)
class ModuleProgram:
    """A module or package that Python's path leads to."""

    name: str
    arguments: tuple[str, ...] = ()

    def execute(self) -> None:
        """Runs the program. Raises: the exceptions of the program."""
        sys.argv[:] = ["-m", *self.arguments]
        _replace_path_start(_working_directory())
        spec = _found(self.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{self.name}.__main__")
        if spec is not None and spec.origin is not None:
            sys.argv[0] = spec.origin
        _execute_spec(spec, self.name)

    @contextlib.contextmanager
    def on_path(self) -> Generator[None]:
        """Inside, Python's path is the one that the module will see."""
        before = list(sys.path)
        _replace_path_start(_working_directory())
        try:
            yield
        finally:
            sys.path[:] = before


@dataclass(frozen=True, kw_only=True)
class CodeProgram:
    """Python code."""

    code: str
    arguments: tuple[str, ...] = ()

    def execute(self) -> None:
        """Runs the program. Raises: the exceptions of the program."""
        sys.argv[:] = ["-c", *self.arguments]
        _replace_path_start("")
        try:
            self.code.encode()
        except UnicodeEncodeError:
            _print_to_stderr(_UNDECODABLE)
            raise
        exec(compile(self.code, "<string>", "exec", dont_inherit=True), _main_module(__loader__=importlib.machinery.BuiltinImporter))


@dataclass(frozen=True, kw_only=True)
class InputProgram:
    """Python code from the standard input, read to its end."""

    arguments: tuple[str, ...] = ()

    def execute(self) -> None:
        """Runs it; raises what it raises."""
        sys.argv[:] = ["-", *self.arguments]
        _replace_path_start("")
        source = b"" if sys.stdin is None else sys.stdin.buffer.read()  # Python has None for a closed one
        exec(compile(source, "<stdin>", "exec", dont_inherit=True), _main_module(__loader__=importlib.machinery.BuiltinImporter))


Program = ScriptProgram | InputProgram | ModuleProgram | CodeProgram


def program_words(program: Program) -> list[str]:
    """The words of a command line that name a program and its arguments."""
    match program:
        case ScriptProgram():
            return [program.name, *program.arguments]
        case ModuleProgram():
            return ["-m", program.name, *program.arguments]
        case CodeProgram():
            return ["-c", program.code, *program.arguments]
        case InputProgram():
            return ["-", *program.arguments]


def run_whole(program: Program) -> tuple[int, str]:
    """Runs a program to the end of its threads.

    Returns: (its exit code, what ended it before its own end: 'Ctrl-C', or 'SIGTERM' or 'SIGHUP', after which threads may be left; '').
    """
    try:
        with told_first():
            ended = run_program(program)
            end_threads()
            return ended
    except KeyboardInterrupt:
        return INTERRUPTED, "Ctrl-C"
    except Terminated as end:
        return end.status, end.name


def run_program(program: Program) -> tuple[int, str]:
    """Runs a program to the end of its main thread, and prints the traceback if it has one.

    Returns: (its exit code, 'Ctrl-C' if that has ended it; '').
    Raises: Terminated if SIGTERM or SIGHUP ends it.
    """
    try:
        program.execute()
        return 0, ""
    except Terminated:
        raise
    except SystemExit as end:
        return _exit_code(end.code), ""
    except BaseException as error:
        ended = error
    return _print_exception(ended), "Ctrl-C" if isinstance(
        ended, KeyboardInterrupt
    ) else ""  # outside of the handler: what a hook raises was not raised during the handling of this error


def end_threads() -> None:
    """Ends threads as Python itself does first: stops pools of threads, and waits for all threads that are no daemons.

    Python does it again later, and finds nothing to do. The callbacks of `atexit` are left to Python.

    Raises: KeyboardInterrupt if Ctrl-C comes meanwhile; then Python, too, waits for no thread any more.
    """
    python_threads: Any = threading  # its types leave out what it keeps for Python's end and for processes that multiprocessing starts
    interrupts: list[BaseException] = []
    told = sys.unraisablehook

    def unraisable(found: sys.UnraisableHookArgs) -> None:
        if isinstance(found.exc_value, KeyboardInterrupt):
            interrupts.append(found.exc_value)
        else:
            told(found)

    sys.unraisablehook = unraisable  # since Python 3.13, Ctrl-C ends the wait and goes there
    try:
        python_threads._shutdown()
    finally:
        sys.unraisablehook = told
    if interrupts:
        raise interrupts[0]


def _exit_code(code: object) -> int:
    """The exit code with which the process would have ended; text goes to stderr, as for `sys.exit`."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    _print_to_stderr(code)
    return 1


def _print_to_stderr(text: object) -> None:
    """Prints a line to the program's stderr or, if it has taken that away, to the process's, if it has one."""
    streams: tuple[Any, ...] = (sys.stderr, sys.__stderr__)
    for stream in streams:
        if stream is not None:
            print(text, file=stream)
            return


def _print_exception(error: BaseException) -> int:
    """Lets the program's `sys.excepthook` print the exception that ended it, and returns the exit code."""
    error = error.with_traceback(_without_own_frames(error.__traceback__))
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as end:
        return _exit_code(end.code)
    except BaseException as second:
        _print_to_stderr("Error in sys.excepthook:")
        second = second.with_traceback(_without_own_frames(second.__traceback__))
        sys.__excepthook__(type(second), second, second.__traceback__)
        _print_to_stderr("\nOriginal exception was:")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on; none if the program was not even begun (a syntax error)."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _main_module(**attributes: object) -> dict[str, Any]:
    """A new `__main__`, which stays; returns its namespace."""
    main = types.ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, **attributes})
    sys.modules["__main__"] = main
    return vars(main)


def _execute_spec(spec: ModuleSpec | None, name: str) -> None:
    """Runs a module that was found as `__main__`, as `python -m` does.

    Raises: SystemExit if there is no code.
    """
    loader: Any = None if spec is None else spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None  # zipimporter is no InspectLoader
    if spec is None or code is None:
        raise SystemExit(f"{sys.executable}: No code to run for {name}")
    exec(code, _main_module(__file__=spec.origin, __cached__=spec.cached, __loader__=loader, __package__=spec.parent, __spec__=spec))


def _found(name: str) -> ModuleSpec | None:
    """Where a module is. Its package is imported, which may raise anything. Raises: SystemExit if a name on the way is no package."""
    package = name.rpartition(".")[0]
    try:
        if package:
            __import__(package)
        return importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        missing = getattr(error, "name", None)
        if package and missing != package and not f"{package}.".startswith(f"{missing}.") and not f"{name}.".startswith(f"{missing}."):
            raise
        raise SystemExit(
            f"{sys.executable}: Error while finding module specification for {name!r} ({type(error).__name__}: {error})"
        ) from None


def _replace_path_start(entry: str | None) -> None:
    """Puts the program's directory, if it has one, where python put that of this command."""
    if not sys.flags.safe_path:
        sys.path[:1] = [] if entry is None else [entry]


def _working_directory() -> str | None:
    """None if it has been deleted: then python -m leaves it out."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _is_archive(filename: str) -> bool:
    """Whether Python has to look inside."""
    return not filename.endswith(".py") and zipfile.is_zipfile(filename)
