"""Runs a Python program in this process as `python` itself would: its names, its path, its tracebacks, its exit code."""

from __future__ import annotations

import builtins
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import types
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import TracebackType
from typing import Any, Final

INTERRUPTED: Final = 130  # exit code of a program that Ctrl-C has ended


@dataclass(frozen=True, kw_only=True)
class ScriptProgram:
    """A Python file; or a directory or zip file with a __main__.py."""

    name: str  # as the user wrote it
    arguments: tuple[str, ...] = ()

    def execute(self) -> None:
        """Runs it; raises what it raises."""
        sys.argv[:] = [self.name, *self.arguments]
        filename = os.path.join(Path.cwd(), self.name)  # as python has it: absolute, but '.' and links stay
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
        """Runs it; raises what it raises."""
        sys.argv[:] = ["-m", *self.arguments]
        _replace_path_start(str(Path.cwd()))
        spec = importlib.util.find_spec(self.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{self.name}.__main__")
        if spec is not None and spec.origin is not None:
            sys.argv[0] = spec.origin
        _execute_spec(spec, self.name)

    @contextlib.contextmanager
    def on_path(self) -> Generator[None]:
        """Inside, Python's path is the one that the module will see."""
        before = list(sys.path)
        _replace_path_start(str(Path.cwd()))
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
        """Runs it; raises what it raises."""
        sys.argv[:] = ["-c", *self.arguments]
        _replace_path_start("")
        exec(compile(self.code, "<string>", "exec", dont_inherit=True), _main_module(__loader__=importlib.machinery.BuiltinImporter))


Program = ScriptProgram | ModuleProgram | CodeProgram


def run_program(program: Program) -> int:
    """Runs a program to its end, prints the traceback if it has one, and returns its exit code."""
    try:
        program.execute()
    except SystemExit as end:
        return _exit_code(end.code)
    except BaseException as error:
        trace = _without_own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _exit_code(code: object) -> int:
    """What the process would have ended with; text goes to stderr, as `sys.exit` has it."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


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


def _replace_path_start(entry: str) -> None:
    """Puts the program's directory where python put that of this command."""
    if not sys.flags.safe_path:
        sys.path[:1] = [entry]


def _is_archive(filename: str) -> bool:
    """Whether Python has to look inside."""
    return not filename.endswith(".py") and zipfile.is_zipfile(filename)
