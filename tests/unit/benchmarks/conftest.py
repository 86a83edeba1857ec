"""Programs of benchmarks may choose the machine of the whole process. Tests that let them do so in a process of its own."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_machine_afterwards() -> Iterator[None]:
    """Another machine gives JAX another client, and devices that tests behind this one hold already would not be known to it."""

    def chosen() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith(("TILESTEP_", "JAX_IPU_"))}

    found = chosen()
    yield
    assert chosen() == found, "this test chooses a machine: run it in a process of its own"
