"""A builder without anything in it."""

from __future__ import annotations

import pytest

from tilestep.popart import Builder


@pytest.fixture
def builder() -> Builder:
    return Builder()
