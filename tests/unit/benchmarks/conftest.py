"""Programs of benchmarks choose the machine of the whole process, so each module puts back the one that it found."""

from __future__ import annotations

import os
from collections.abc import Iterator

import jax.extend
import pytest


@pytest.fixture(autouse=True, scope="module")
def same_machine_afterwards() -> Iterator[None]:
    found = dict(os.environ)
    yield
    changed = {name for name in found.keys() | os.environ.keys() if name.startswith(("TILESTEP_", "JAX_IPU_"))}
    if any(found.get(name) != os.environ.get(name) for name in changed):
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update({name: found[name] for name in changed & found.keys()})
        jax.extend.backend.clear_backends()
