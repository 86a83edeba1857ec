"""Gains of donation: as promised within 2 %."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import Fault, check, of_kind, profiled

STEPS = 30
STATE = np.ones((512, 512), np.float32)


def layers(state: Any, batch: Any) -> Any:
    return [jnp.tanh(batch @ w) * 1e-3 + w for w in state]


def training(*, donated: bool, kept: bool = False) -> Any:
    def program() -> Any:
        step = jax.jit(lambda state, batch: layers(state, batch), donate_argnums=(0,) if donated else ())
        state: Any = [STATE, STATE, STATE]
        states: list[Any] = []
        for _ in range(STEPS):
            state = step(state, STATE)
            states += state[:1] if kept else []
        return state, states

    return program


def predicting(*, kept: bool) -> Any:
    def program() -> Any:
        weights: Any = jax.device_put(STATE, jax.devices("ipu")[0])
        if kept:
            predict = jax.jit(lambda weights, x: (weights, x @ weights), donate_argnums=0)
        else:
            predict = jax.jit(lambda weights, x: (None, x @ weights))
        answer: Any = None
        for _ in range(STEPS):
            passed, answer = predict(weights, STATE[:8])
            weights = passed if kept else weights
        return answer

    return program


FAULTS = {
    "own results": Fault("donation", "^donate state$", training(donated=False), training(donated=True), 0.02, "within 2 %"),
    "a value that stays the same": Fault(
        "donation", "^return weights unchanged and donate it$", predicting(kept=False), predicting(kept=True), 0.02, "within 2 %"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_arguments_that_are_used_again_are_left_out() -> None:
    """A third of the state is kept by the program, so that it cannot be donated."""
    kinds = of_kind(profiled(training(donated=False, kept=True)), "donation")
    [found] = [finding for finding in kinds if finding.edit.startswith("donate")]
    assert "state[0]" not in found.text
    assert "state[1]" in found.text
