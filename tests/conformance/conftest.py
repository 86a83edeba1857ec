"""Four CPU devices for programs that spread over four IPUs. `tests/conftest.py` has the process start with them."""

import jax
import pytest

NUM_DEVICES = 4


@pytest.fixture(scope="session")
def ipus() -> list[jax.Device]:
    return jax.devices("ipu")[:NUM_DEVICES]


@pytest.fixture(scope="session")
def cpus() -> list[jax.Device]:
    return jax.devices("cpu")[:NUM_DEVICES]
