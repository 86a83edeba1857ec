"""Programs under a command line run in turn in one process; what ends a process, or happens at its end, takes one of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.in_turn import RunPython, in_turn


@pytest.fixture(scope="package")
def run_python() -> Iterator[RunPython]:
    with in_turn() as run:
        yield run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that ask for the process have the marker."""
    for item in items:
        if "run_python" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)
