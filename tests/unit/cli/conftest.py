"""Programs under a command line run in turn in one process; what ends a process, or happens at its end, takes one of its own."""

import pytest

from tests import in_turn


@pytest.fixture(scope="package")
def run_python() -> in_turn.RunPython:
    return in_turn.run_python


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that ask for the process have the marker."""
    for item in items:
        if "run_python" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)
