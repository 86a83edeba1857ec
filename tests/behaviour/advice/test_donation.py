"""Gains of donation: as promised within 2 %."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.behaviour.advice.fault import Fault, check, of_kind, profiled
from tilestep.train import Pipeline

STEPS = 30
STATE = np.ones((512, 512), np.float32)


def layers(state: Any, batch: Any) -> Any:
    return [jnp.tanh(batch @ w) * 1e-3 + w for w in state]


def training(*, donated: bool) -> Any:
    def program() -> Any:
        step = jax.jit(lambda state, batch: layers(state, batch), donate_argnums=(0,) if donated else ())
        state: Any = [STATE, STATE, STATE]
        for _ in range(STEPS):
            state = step(state, STATE)
        return state

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
        "donation",
        "^return weights unchanged and donate it$",
        predicting(kept=False),
        predicting(kept=True),
        0.02,
        "within 2 %",
        says="with the same value: return it unchanged and donate it",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def train(state: Any, batch: Any) -> Any:
    return state * 0.5 + batch


def loss(state: Any, batch: Any) -> Any:
    return (state * batch).sum()


def evaluated(*, donated: bool) -> Callable[[], Any]:
    """Steps on a state that goes round, with an evaluation after each."""

    def program() -> Any:
        step = jax.jit(partial(train), donate_argnums=(0,) if donated else ())
        evaluate = jax.jit(partial(loss))
        state: Any = STATE
        for _ in range(STEPS):
            state = step(state, np.float32(1))
            evaluate(state, np.float32(1))
        return state

    return program


def test_donation_is_not_advised_to_a_program_that_is_evicted_between_runs() -> None:
    """Its state would be saved and restored instead of streamed."""
    streaming, donating = profiled(evaluated(donated=False)), profiled(evaluated(donated=True))
    assert donating.emulated_cycles > 0.99 * streaming.emulated_cycles
    assert of_kind(streaming, "donation") == of_kind(donating, "donation") == []
    [step, evaluation] = donating.programs
    assert (step.host_bytes_in, step.host_bytes_out, evaluation.host_bytes_out) == (4, 0, 4)
    assert (evaluation.host_bytes_saved, step.host_bytes_restored) == (STEPS * STATE.nbytes, (STEPS - 1) * STATE.nbytes)
    assert "  Values of evicted programs" not in streaming.summary()
    assert re.search(r"Values of evicted programs\n +program +loads +saved +restored\n +jit_loss +30 30\.0 MiB +0 B", donating.summary())


@pytest.mark.parametrize("summed", [True, False])
def test_donation_is_told_at_once_where_it_counts_behind_another_edit_alone(summed: bool) -> None:
    """An operation outside of jit evicts the program at each turn: weights that stay would be saved and restored."""

    def program() -> Any:
        predict = jax.jit(lambda weights, x: x @ weights)
        weights: Any = jax.device_put(np.ones((1024, 1024), np.float32), jax.devices("ipu")[0])
        for number in range(8):
            answer = predict(weights, np.full((2048, 1024), number, np.float32))
            np.asarray(jnp.sum(answer) if summed else answer)

    [found] = of_kind(profiled(program), "donation")
    assert found.edit == "return weights unchanged and donate it"
    assert found.gain is not None
    assert (found.gain.most < 0.01 and 1 in found.gain.after and found.gain.after_share > 0.1) == summed


def test_donation_is_advised_to_a_short_run_on_several_ipus_whose_time_is_loads_and_waits(ipus: list[jax.Device]) -> None:
    mesh = Mesh(np.array(ipus), ("data",))
    make = jax.jit(lambda: jnp.ones((32, 32)), out_shardings=NamedSharding(mesh, PartitionSpec()))
    step = jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w))

    def program() -> Any:
        w: Any = make()
        for number in range(12):
            w = step(w, jax.device_put(np.full((64, 32), number, np.float32), NamedSharding(mesh, PartitionSpec("data"))))
        return w

    profile = profiled(program)
    assert profile.cycles_by_kind["load"] > 0.8 * (profile.emulated_cycles - profile.idle_cycles)
    [found] = of_kind(profile, "donation")
    assert found.gain is not None
    assert found.gain.step_share is not None
    assert found.gain.step_share > 0.1


def test_donation_is_not_advised_for_what_is_used_again() -> None:
    """States that the program reads when the next ones are there: a donated one would be gone."""

    def program() -> Any:
        step = jax.jit(partial(train))
        states: list[Any] = [jnp.asarray(STATE)]
        for _ in range(STEPS):
            states.append(step(states[-1], np.float32(1)))
        return [np.asarray(state) for state in states]

    assert of_kind(profiled(program), "donation") == []


def test_what_equinox_passes_is_donated_by_its_own_argument() -> None:
    """The arrays of all arguments are one argument of the jitted function there, whose name is no parameter of the user's."""

    def halved(dynamic_nodonate: Any) -> Any:
        return [array * 0.5 for array in dynamic_nodonate]

    def program(function: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> Any:
            state: Any = [STATE]
            step = jax.jit(function)
            for _ in range(STEPS):
                state = step(state)
            return state

        return run

    [theirs] = of_kind(profiled(program(halved)), "donation")
    [own] = of_kind(profiled(program(lambda state: halved(state))), "donation")
    assert theirs.edit == 'donate the arrays of jit_halved (equinox.filter_jit(donate="all"))'
    assert "donate_argnums" not in theirs.text
    assert own.edit == "donate state"
    assert "(donate_argnums)" in own.text


def test_donation_is_not_advised_to_the_runtime_s_programs() -> None:
    """The stages of a pipeline get parameters from the host until they have been updated, for each microbatch."""
    stages = [lambda params, x: x @ params, lambda params, x: (x @ params).sum()]
    weights = [np.ones((256, 256), np.float32), np.ones((256, 256), np.float32)]
    pipeline = Pipeline(stages, optax.sgd(1e-3), 4, devices=jax.devices("ipu"), device_mapping=[0, 1])

    def program() -> Any:
        state = pipeline.init(weights)
        for _ in range(10):
            state, _ = pipeline.step(state, np.ones((4, 8, 256), np.float32))
        return state.params

    profile = profiled(program)
    assert any(found.streamed_again for found in profile.programs if found.origin == "group")
    assert of_kind(profile, "donation") == []
