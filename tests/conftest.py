"""Options of the whole test run."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

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
_compiled = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """The processes of a run share what is compiled, in JAX's own cache. `make test-all` compiles each program anew, as users do."""
    if not os.environ["XLA_FLAGS"]:
        return
    folder = getattr(config, "workerinput", {}).get("compiled")
    if folder is None:
        config.stash[_compiled] = tempfile.TemporaryDirectory(prefix="compiled-")
        folder = config.stash[_compiled].name
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker the folder. Args: node: of pytest-xdist."""
    if _compiled in node.config.stash:
        node.workerinput["compiled"] = node.config.stash[_compiled].name


def pytest_unconfigure(config: pytest.Config) -> None:
    if _compiled in config.stash:
        config.stash[_compiled].cleanup()


@pytest.fixture(autouse=True)
def _the_peak_of_every_plan_can_be_rebuilt() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    wrong = rebuilt_peak.WRONG.copy()
    rebuilt_peak.WRONG.clear()
    assert not wrong, "\n".join(wrong)


def pytest_collection_finish() -> None:
    """Garbage is looked for seldom, and not among modules: of a process with so many objects it took an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the figures in tests/golden and in documents")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
