"""Four CPU devices, so that programs that spread over four IPUs have something to be compared with."""

from __future__ import annotations

import jax
import pytest

NUM_DEVICES = 4

jax.config.update("jax_num_cpu_devices", NUM_DEVICES)


@pytest.fixture(scope="session")
def ipus() -> list[jax.Device]:
    return jax.devices("ipu")[:NUM_DEVICES]


@pytest.fixture(scope="session")
def cpus() -> list[jax.Device]:
    return jax.devices("cpu")[:NUM_DEVICES]
