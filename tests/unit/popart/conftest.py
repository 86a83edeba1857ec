"""A builder and options in which nothing is set."""

import pytest

from tilestep import popart


@pytest.fixture
def builder() -> popart.Builder:
    return popart.Builder()


@pytest.fixture
def options() -> popart.SessionOptions:
    return popart.SessionOptions()
