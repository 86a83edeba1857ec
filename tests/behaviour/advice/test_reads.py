"""Gains of reads by the host of values in the tiles."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import Fault, check, of_kind, profiled

STEPS = 40
STATE = np.ones((1024, 1024), np.float32)  # a step takes longer than the host takes to call it


def training(*, read_every: int) -> Callable[[], Any]:
    """Steps whose state the host reads now and then."""

    def step(state: Any) -> Any:
        return state + 1e-3 * jnp.tanh(state @ state)

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0)
        state: Any = jax.device_put(STATE, jax.devices("ipu")[0])
        for number in range(1, STEPS + 1):
            state = jitted(state)
            if number % read_every == 0:
                np.asarray(state)
        return state

    return program


@pytest.mark.slow
def test_a_state_that_is_read_too_often_is_found_first_and_worth_what_was_promised() -> None:
    edit = r"^read results of jit_step once, after its last run$"
    check(Fault("reads", edit, training(read_every=4), training(read_every=STEPS), 0.0, how="replayed"))


def converging(form: str) -> Callable[[], Any]:
    """Steps of which the host reads a number, to end when it is small, or to print it."""

    def step(state: Any) -> Any:
        state = state - 1e-3 * jnp.tanh(state @ state)
        return state, jnp.abs(state).mean()

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0)
        state: Any = jax.device_put(STATE, jax.devices("ipu")[0])
        seen: list[float] = []
        for number in range(STEPS):
            state, size = jitted(state)
            if form == "test":
                if abs(float(size)) < 1e-9:
                    break
            elif form == "test below":
                now = float(size)
                if now < 1e-9:
                    break
            elif form == "test that raises":
                if not np.isfinite(size): raise ValueError(size)  # fmt: skip  # noqa: E701
            elif form == "one line":
                if number % 2 == 0: seen.append(float(size))  # fmt: skip  # noqa: E701
            else:
                seen.append(float(size))
        return state

    return program


@pytest.mark.few(3)
@pytest.mark.parametrize("form", ["test", "test below", "test that raises", "one line", "list"])
def test_what_decides_when_to_end_is_not_told_to_be_read_after_the_end(form: str) -> None:
    [found] = of_kind(profiled(converging(form)), "idle")
    tests, reads = (
        "test what the host reads on the IPU (lax.while_loop), or only at every tenth call",
        "read results after the last call",
    )
    assert found.edit == (tests if form.startswith("test") else reads)
    assert found.text.endswith(": read them later, or rarely." if found.edit == reads else ", to decide what comes next.")
    assert found.gain is not None
    assert found.gain.how == ("replayed" if found.edit == reads else "about")
