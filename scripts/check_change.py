#!/usr/bin/env python3
"""Checks a change in under two minutes: format, lint, types, the layers, and the unit tests of the rooms that it touches.

    scripts/check_change.py               what differs from branch main, committed or not
    scripts/check_change.py --base HEAD~3 what differs from there

A room is a folder of `src/tilestep`; its tests are in the folder of the same name below `tests/unit`. Tests that have not run when
the time is over are named: `make test` runs them all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/test_layers.py", "tests/test_public_names.py")
TIME_WALL_S = 90  # for the tests; a test that has begun may end


def changed_files(base: str) -> list[Path]:
    """Files that differ from where this branch left `base`, uncommitted and new ones among them.

    Raises: subprocess.CalledProcessError if git knows no such revision.
    """
    fork = _git("merge-base", base, "HEAD").strip()
    names = _git("diff", "--name-only", "-z", fork) + _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({Path(name) for name in names.split("\0") if name})


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


def chosen_tests(changed: Sequence[Path], root: Path) -> list[str]:
    """The files and folders of tests that a change calls for, relative to `root`: first the tests that have changed themselves."""
    own = [path for path in changed if path.parts[0] == "tests" and path.name.startswith("test_") and (root / path).is_file()]
    rooms = [tests for path in changed if (tests := _tests_of_source(path, root)) is not None]
    chosen: list[Path] = []
    for path in (*own, *rooms):
        if not any(path == before or before in path.parents for before in chosen):
            chosen.append(path)
    return [str(path) for path in chosen]


def _tests_of_source(path: Path, root: Path) -> Path | None:
    """The nearest folder of unit tests, or the file that has a module's."""
    if path.parts[:2] == ("src", "tilestep"):
        inner = Path(*path.parts[2:])
    elif path.parts[0] in ("benchmarks", "scripts"):
        inner = path
    else:
        return None
    unit = Path("tests", "unit")
    module = unit / inner.parent / f"test_{inner.stem}.py"
    if len(inner.parts) == 1:
        return module if (root / module).is_file() else None
    folder = unit / inner.parent
    while folder != unit and not (root / folder).is_dir():
        folder = folder.parent
    return folder if folder != unit else None


class NotRun:
    """A plugin of pytest that knows which tests have not run."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._waiting = dict.fromkeys(item.nodeid for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._waiting.pop(report.nodeid, None)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._waiting:
            terminalreporter.section(f"{len(self._waiting)} tests did not run: {TIME_WALL_S} s were over")
            for file, count in Counter(name.split("::")[0] for name in self._waiting).items():
                terminalreporter.write_line(f"{count:5} of {file}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default="main", help="the revision to compare with (default %(default)s)")
    options = parser.parse_args()
    try:
        changed = changed_files(options.base)
    except subprocess.CalledProcessError:
        return 2  # git has said why
    tools = Path(sys.executable).parent
    types = (tools / "pyrefly", "check", "--python-interpreter-path", Path(sys.executable))
    commands: list[tuple[object, ...]] = [(tools / "ruff", "format", "--check", "."), (tools / "ruff", "check", "."), types]
    if any(path.suffix == ".js" for path in changed):
        commands.append((Path(sys.executable), "scripts/page_types.py"))
    for command in commands:
        if subprocess.run([str(part) for part in command], cwd=ROOT).returncode:
            return 1
    tests = [*ALWAYS, *(name for name in chosen_tests(changed, ROOT) if name not in ALWAYS)]
    print(f"{len(changed)} files differ from {options.base}; tests: {' '.join(tests)}", flush=True)
    wanted = ["-q", "-m", "not slow", "-p", "no:xdist", f"--session-timeout={TIME_WALL_S}", f"--rootdir={ROOT}"]
    failed = pytest.main([*wanted, *(str(ROOT / name) for name in tests)], plugins=[NotRun()])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
