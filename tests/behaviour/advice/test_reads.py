"""Gains of reads by the host of values in the tiles."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import Fault, check, of_kind, profiled

STEPS = 40
STATE = np.ones((1024, 1024), np.float32)  # a step takes longer than the host takes to call it


def training(*, read_every: int, donated: bool = True) -> Callable[[], Any]:
    """Steps whose state the host reads now and then."""

    def step(state: Any) -> Any:
        return state + 1e-3 * jnp.tanh(state @ state)

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0 if donated else ())
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


@pytest.mark.slow
def test_calls_that_are_short_but_for_reads_are_not_told_to_loop() -> None:
    assert of_kind(profiled(training(read_every=4)), "calls") == []


@pytest.mark.slow
def test_a_state_that_is_read_once_is_not_told_of() -> None:
    assert of_kind(profiled(training(read_every=STEPS)), "reads") == []


@pytest.mark.slow
def test_results_that_stream_out_anyway_cost_no_read() -> None:
    assert of_kind(profiled(training(read_every=4, donated=False)), "reads") == []


@pytest.mark.slow
def test_reads_are_told_by_their_sizes_and_not_where_a_function_needs_them() -> None:
    """The state goes to the host for functions of the user's, as for an evaluation on the CPU; a counter is looked at."""

    def step(state: Any, seen: Any) -> Any:
        return state + 1e-3 * jnp.tanh(state @ state), seen + 1

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=(0, 1))
        state: Any = jax.device_put(STATE, jax.devices("ipu")[0])
        seen: Any = np.zeros(1, np.float32)
        for number in range(STEPS):
            state, seen = jitted(state, seen)
            if number % 10 == 0:
                evaluated(state)
            elif number % 10 == 5:
                now = jax.device_get(state)
                print(evaluated(now))
            elif number % 2:
                print(np.asarray(seen))
        return state

    assert of_kind(profiled(training(read_every=4)), "reads")[0].text.startswith(
        "The host reads results of jit_step out of the tiles after 10 runs (4.00 MiB 10 times): read them rarely"
    )
    profile = profiled(program)
    [found] = of_kind(profile, "reads")
    assert "after 16 runs (4 B 16 times)" in found.text
    assert found.line is not None
    assert "print(" in linecache.getline(found.line.file, found.line.number)
    [aside] = of_kind(profile, "needed")
    assert aside.part == "aside"
    assert re.fullmatch(r"if abs, evaluated got results of jit_step( #\d+)? once, after its last run", aside.edit)
    assert re.search(r"\(4.00 MiB \d times\), for abs, evaluated\.$", aside.text)
    assert of_kind(profiled(training(read_every=4)), "needed") == []


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


def evaluated(state: Any) -> float:
    return float(np.abs(np.asarray(state)).mean())
