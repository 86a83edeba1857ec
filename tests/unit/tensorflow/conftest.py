"""These tests need TensorFlow, which `make test-tensorflow` has in an environment of its own; elsewhere they are not collected."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
collect_ignore_glob = [] if HAS_TENSORFLOW else ["test_*.py"]


@pytest.fixture
def tf() -> Iterator[Any]:
    """TensorFlow 1's interface, in a graph of its own; nothing is configured at the end."""
    from tilestep.tensorflow.ipu.config import systems
    from tilestep.tensorflow.untyped import v1

    with v1.Graph().as_default():
        yield v1
    systems.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """TensorFlow itself uses what Python and NumPy deprecate."""
    for item in items:
        if "unit/tensorflow" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
