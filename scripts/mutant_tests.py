"""Runs tests for scripts/mutants.py: records which lines each executes, or judges whether a mutant fails one of a list.

To record needs Python 3.12 or newer: a line there costs nothing after its first event. Every process of an environment, also one that a
test starts, imports this module by a .pth file, so it imports little. Lines are kept by key: a test, or what several tests share. That is
a fixture of more than one test, or a file of `tests.recordings.once`. What a test shares is named beside its own lines.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEY = "PYTEST_MUTANTS_KEY"  # what the lines of a process are for; tests hand on variables of this beginning
MOST_BYTES = 8 << 30  # of a process: a mutant may ask for more than there is
TOOL = 4  # of sys.monitoring; the first are those of debuggers and profilers
_seen: set[tuple[str, int]] = set()
_folder = _sources = ""


def record(folder: str, sources: str) -> None:
    """Records this process, and its forks: lines of files below `sources`, into a file of `folder`."""
    global _folder, _sources
    if _folder:  # Python reads a .pth file twice where two names lead to its folder
        return
    from importlib.machinery import SourceFileLoader

    _folder, _sources = folder, sources + os.sep
    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL, "mutants")

    def line(code: Any, number: int) -> Any:
        _seen.add((code.co_filename, number))
        return monitoring.DISABLE

    monitoring.register_callback(TOOL, monitoring.events.LINE, line)
    get_code, leave, move = SourceFileLoader.get_code, os._exit, os.chdir
    begun = os.environ.get(KEY, "")

    def watched(self: SourceFileLoader, name: str) -> Any:
        code = get_code(self, name)
        if code is not None and code.co_filename.startswith(_sources):
            _watch(code)
        return code

    def left(status: int) -> Any:
        end()
        leave(status)

    def moved(path: Any) -> None:
        """So programs of tests/in_turn.py begin and end: one process runs those of several tests, and is killed."""
        nonlocal begun
        move(path)
        if "pytest" not in sys.modules:
            _write(begun)
            begun = os.environ.get(KEY, "")
            _restart()

    def end() -> None:
        _write(own=round(time.process_time(), 4))

    SourceFileLoader.get_code = watched  # type: ignore[method-assign]
    os._exit = left  # type: ignore[assignment]
    os.chdir = moved
    atexit.register(end)
    os.register_at_fork(after_in_child=_restart)


def _watch(code: Any) -> None:
    sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.LINE)
    for inner in code.co_consts:
        if hasattr(inner, "co_consts"):
            _watch(inner)


def _restart() -> None:
    global _seen
    _seen = set()
    sys.monitoring.restart_events()


def _write(key: str | None = None, **facts: Any) -> None:
    """Appends what has been seen since the last time: the lines of each file as the bits of a number."""
    global _seen
    seen, _seen = _seen, set()
    files: dict[str, int] = {}
    for name, number in seen:
        name = name.removeprefix(_sources)
        files[name] = files.get(name, 0) | 1 << number
    if files or facts:
        text = json.dumps(
            {"key": os.environ.get(KEY, "") if key is None else key, **facts, "files": {name: f"{bits:x}" for name, bits in files.items()}}
        )
        with open(os.path.join(_folder, f"{os.getpid()}.jsonl"), "a") as file:
            file.write(text + "\n")


def pytest_configure(config: Any) -> None:
    """Where this module is a plugin of pytest (`-p mutant_tests`), it records."""
    config.pluginmanager.register(_recorder())


class _Pages:
    """Lines of the page's JavaScript that pages in Chromium have executed."""

    def __init__(self) -> None:
        self._open: list[tuple[Any, Any]] = []  # pages, and connections to what counts there

    def watch(self) -> None:
        """From now on, each page of a browser is watched."""
        from playwright.sync_api import Browser, BrowserContext

        closes = BrowserContext.close

        def watched(opens: Any) -> Any:
            def new_page(owner: Any, **options: Any) -> Any:
                page = opens(owner, **options)
                if page.context.browser.browser_type.name == "chromium":
                    counts = page.context.new_cdp_session(page)
                    counts.send("Profiler.enable")
                    counts.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})
                    self._open.append((page, counts))
                return page

            return new_page

        def close(context: Any, **options: Any) -> None:
            self.look()
            self._open = [(page, counts) for page, counts in self._open if page.context != context]
            closes(context, **options)

        for owner in (Browser, BrowserContext):
            owner.new_page = watched(owner.new_page)  # type: ignore[method-assign]
        BrowserContext.close = close  # type: ignore[method-assign]

    def look(self) -> None:
        """Adds what was executed since the last time."""
        if not self._open:
            return
        from tilestep.views.page.assets import script

        text = script()
        for page, counts in self._open:
            for ran in [] if page.is_closed() else counts.send("Profiler.takePreciseCoverage")["result"]:
                ranges = [each for function in ran["functions"] for each in function["ranges"]]  # what is inside stands behind
                if max((each["endOffset"] for each in ranges), default=0) == len(text):
                    executed = bytearray(len(text))
                    for each in ranges:
                        begin, end = each["startOffset"], each["endOffset"]
                        executed[begin:end] = (b"\1" if each["count"] else b"\0") * (end - begin)
                    _seen.update(_executed_lines(text, executed))


def _executed_lines(text: str, executed: bytearray) -> Iterator[tuple[str, int]]:
    place, name, number = 0, "", 0
    for line in text.split("\n"):
        if line.startswith("// ") and line.endswith(".js"):
            name, number = f"{_sources}views/assets/{line[3:]}", -2  # a line follows that opens the module
        number += 1
        first = place + len(line) - len(line.lstrip())
        if name and number > 0 and first < place + len(line) and executed[first]:
            yield name, number
        place += len(line) + 1


def _recorder() -> Any:
    import resource

    import pytest

    uses: list[set[str]] = []
    failed: set[str] = set()
    pages = _Pages()

    @contextmanager
    def under(key: str, facts: dict[str, Any], *used: str) -> Iterator[None]:
        before = os.environ.get(KEY)
        if uses:
            uses[-1].add(key)
        _write()
        uses.append(set(used))
        os.environ[KEY] = key
        _restart()
        try:
            yield
        finally:
            pages.look()
            _write(uses=sorted(uses.pop()), **facts)
            os.environ.pop(KEY) if before is None else os.environ.update({KEY: before})
            _restart()

    def times() -> tuple[float, float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), time.process_time(), children.ru_utime + children.ru_stime

    def shared(fixture: Any) -> str:
        return f"fixture {fixture.baseid}::{fixture.argname}"

    class Recorder:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            facts: dict[str, Any] = {}
            fixtures = [each for some in item._fixtureinfo.name2fixturedefs.values() for each in some if each.scope != "function"]
            with under(item.nodeid, facts, *map(shared, fixtures)):
                begin = times()
                result = yield
                spent = (round(after - before, 4) for before, after in zip(begin, times(), strict=True))
                facts |= {**dict(zip(("wall", "self", "child"), spent, strict=True)), "failed": item.nodeid in failed}
            return result

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_fixture_setup(self, fixturedef: Any) -> Any:
            if fixturedef.scope == "function":
                return (yield)
            with under(shared(fixturedef), {}):
                return (yield)

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.add(report.nodeid)

        def pytest_collection_finish(self) -> None:
            if "playwright.sync_api" in sys.modules:
                pages.watch()
            recordings: Any = sys.modules.get("tests.recordings")
            if recordings is not None:
                once = recordings.once

                def recorded(path: Path, make: Any) -> Path:
                    with under(f"file {path.name}", {}):
                        return once(path, make)

                recordings.once = recorded

    return Recorder()


def judge(tests: Sequence[str], *, first: bool, timeout_s: float) -> dict[str, Any]:
    """Runs tests in the order in which they are named, and ends with the first that fails if `first` is set.

    Returns: the tests that failed, how many passed, and pytest's exit status.
    """
    import pytest

    wanted = {name: place for place, name in enumerate(tests)}
    failed: list[str] = []
    passed: set[str] = set()

    class Judge:
        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid)

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items[:] = sorted((item for item in items if item.nodeid in wanted), key=lambda item: wanted[item.nodeid])

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and report.nodeid not in failed:
                failed.append(report.nodeid)
            if report.when == "teardown" and report.nodeid not in failed:
                passed.add(report.nodeid)

    files = list(dict.fromkeys(name.partition("::")[0] for name in wanted))
    options = ["-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no", "--no-header", f"--timeout={timeout_s}"]
    status = pytest.main([*options, *(["-x"] if first else []), *files], plugins=[Judge()])
    return {"failed": failed, "passed": len(passed), "status": int(status)}
