"""Single operations and functions run on the IPU, as where it is the default platform."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def default_ipu(ipu: jax.Device) -> Iterator[None]:
    with jax.default_device(ipu):
        yield
