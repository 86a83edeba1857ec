"""Devices for the tests of this folder; JAX's default stays the CPU, as users have it."""

import jax
import pytest


@pytest.fixture(scope="session")
def ipus() -> list[jax.Device]:
    return jax.devices("ipu")


@pytest.fixture
def ipu(ipus: list[jax.Device]) -> jax.Device:
    return ipus[0]


@pytest.fixture(scope="session")
def cpu() -> jax.Device:
    return jax.devices("cpu")[0]
