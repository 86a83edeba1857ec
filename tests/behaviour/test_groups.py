"""`hints.program_group`: programs that a runtime dispatches together are one program per IPU."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tilestep
from tilestep.hints import current_group, program_group

Step = Callable[..., Any]


@pytest.fixture
def two_programs() -> tuple[Step, Step]:
    """New functions, so new programs, for each test."""
    forward = jax.jit(lambda state, batch: (state + batch.sum(), batch * 2), donate_argnums=0)
    update = jax.jit(lambda state, batch: (state * 2, batch + 1), donate_argnums=0)
    return forward, update


# Groups of one name are one group in the whole process, so each test has a name of its own.


def train(programs: tuple[Step, ...], device: jax.Device, name: str | None, *, steps: int = 5) -> tuple[Any, Any]:
    """(profile, state) of some steps of two programs each."""
    state = jax.device_put(np.zeros((100, 100), np.float32), device)
    with tilestep.profile() as profile:
        for _ in range(steps):
            with contextlib.nullcontext() if name is None else program_group(name):
                for program in programs:
                    state, _ = program(state, np.ones(10, np.float32))
        state.block_until_ready()
    return profile, np.asarray(state)


def test_the_innermost_group_counts() -> None:
    assert current_group() is None
    with program_group("outer"):
        first = current_group()
        with program_group("inner"):
            assert (current_group() or ("",))[0] == "inner"
        assert current_group() == first
    with program_group("outer"):  # entered again: the same group, another entry
        again = current_group()
    assert first is not None
    assert again is not None
    assert first[0] == again[0]
    assert first[1] < again[1]
    assert current_group() is None


def test_a_group_ends_with_an_exception_and_is_of_its_thread_alone() -> None:
    seen = []
    with contextlib.suppress(KeyError), program_group("mine"):
        thread = threading.Thread(target=lambda: seen.append(current_group()))
        thread.start()
        thread.join()
        raise KeyError
    assert seen == [None]
    assert current_group() is None


def test_a_profile_in_which_a_program_joins_a_loaded_group_says_so(ipu: jax.Device, two_programs: tuple[Step, Step]) -> None:
    train(two_programs[:1], ipu, "joined")
    profile, _ = train(two_programs[1:], ipu, "joined", steps=1)
    summary = " ".join(profile.summary().split())
    assert "of emulated time: jit__lambda joined a group that was loaded." in summary, summary
    assert "0 program loads" not in summary
