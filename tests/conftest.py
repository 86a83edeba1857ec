"""Options of the whole test run."""

from __future__ import annotations

import os
import signal

import pytest

from tests.processes import QUICKLY_COMPILED

os.environ.setdefault("XLA_FLAGS", QUICKLY_COMPILED)  # before JAX is imported; `make test-all` sets it empty

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs are started so, and tests send themselves Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the figures in tests/golden and in documents")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
