"""Options of the whole test run."""

import gc
import importlib
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from zlib import crc32

import jax
import pytest
from hypothesis import settings

from tests import rebuilt_peak
from tests.processes import QUICKLY_COMPILED

gc.disable()  # until all tests are collected: what modules make stays
os.environ.setdefault("XLA_FLAGS", QUICKLY_COMPILED)  # before JAX starts a platform; `make test-all` sets it empty

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs are started so, and tests send themselves Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_num_cpu_devices", 8)  # decided once in a process; as many as the most that a test uses
settings.register_profile("untimed", deadline=None)  # a machine may be slow
settings.load_profile("untimed")
rebuilt_peak.check_every_plan()


@pytest.fixture(autouse=True)
def _the_peak_of_every_plan_can_be_rebuilt() -> Iterator[None]:
    yield
    wrong = rebuilt_peak.WRONG.copy()
    rebuilt_peak.WRONG.clear()
    assert not wrong, "\n".join(wrong)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of a run of all tests, each worker begins with another part of the files: pytest rewrites a file's assertions once, for all workers.

    In a fresh checkout that takes as long as everything else that a worker does before its first test.
    """
    count, name = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    if session.config.args == session.config.getini("testpaths"):
        root = session.config.rootpath
        files = sorted(root.glob("tests/**/test_*.py"))
        part = len(files) * int(name.removeprefix("gw")) // count
        for file in files[part : part + len(files) // count] if part else []:
            with suppress(Exception, pytest.skip.Exception):  # collecting says why
                importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Garbage is looked for seldom, and not among modules: of a process with so many objects it took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the figures in tests/golden and in documents")
    parser.addoption("--newest", action="store_true", help="only the part that `make test` runs with the newest Python and JAX")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of pages begin, so that one worker has them.

    Of a function marked `few(n)`, n cases spread over all are fast, and the others slow. Of unit tests the newest JAX gets one of thirty,
    of the tests of values half of what is drawn, and one through each door.
    """
    items.sort(key=lambda item: not item.path.is_relative_to(config.rootpath / "tests" / "page"))
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        few = next(mark.args[0] for mark in found[0].iter_markers("few"))
        for number, item in enumerate(found):
            if number and number * few // len(found) == (number - 1) * few // len(found):
                item.add_marker(pytest.mark.slow)
    if config.getoption("--newest"):
        apart = {item: not _is_for_the_newest(item) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if apart[item]])
        items[:] = [item for item in items if not apart[item]]


def _is_for_the_newest(item: pytest.Item) -> bool:
    if item.get_closest_marker("door"):
        return True
    one_of, other = (30, ["browser", "process"]) if "unit" in item.path.parts else (2, [])
    return crc32(item.nodeid.encode()) % one_of == 0 and not any(map(item.get_closest_marker, ["slow", *other]))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
