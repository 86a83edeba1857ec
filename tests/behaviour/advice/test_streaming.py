"""Gains of arguments and results that need not take the host link, or not alone."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import Fault, check, dry, of_kind, profiled
from tilestep.train import InfeedQueue, repeat

STEPS = 40
WEIGHTS = np.ones((512, 512), np.float32)
BATCH = np.ones((1024, 512), np.float32)


def training(*, returns: str) -> Callable[[], Any]:
    """Steps that return what nobody reads, what is read, or the loss alone."""

    def step(weights: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ weights)
        return weights + 1e-3 * hidden.mean(0), hidden.sum(), hidden if returns != "loss" else None

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0)
        weights: Any = WEIGHTS
        seen: list[Any] = []
        for number in range(STEPS):
            weights, loss, hidden = jitted(weights, BATCH[:256] + number)
            seen.append(loss)
            if returns == "read":
                seen.append(np.asarray(hidden))
        return weights, seen

    return program


def feeding(dtype: Any, io_tiles: int) -> Callable[[], Any]:
    """Steps that work for about as long as their batch takes to come."""

    def step(weights: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, w: w + 1e-3 * jnp.tanh(x.astype(jnp.float32) @ w).mean(0), weights)

    def program() -> Any:
        options = {"ipu_num_io_tiles": io_tiles} if io_tiles else None
        jitted = jax.jit(step, donate_argnums=0, compiler_options=options)
        weights: Any = WEIGHTS
        for number in range(STEPS):
            weights = jitted(weights, (BATCH + number).astype(dtype))
        return weights

    return program


def looping(io_tiles: int) -> Callable[[], Any]:
    """The same in a loop on the device, with an infeed."""

    def body(weights: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, w: w + 1e-3 * jnp.tanh(x @ w).mean(0), weights)

    def program() -> Any:
        with InfeedQueue([BATCH] * STEPS) as queue:
            return repeat(STEPS, body, WEIGHTS, queue, chunk=4, plan_options={"num_io_tiles": io_tiles})

    return program


FAULTS = {
    "results that nobody reads": Fault(
        "results", r"^do not return f32\[256,512\]", training(returns="all"), training(returns="loss"), 0.25
    ),
    "batches that could come meanwhile": Fault(
        "streaming", "'ipu_num_io_tiles': 32", feeding(np.float32, 0), feeding(np.float32, 32), 0.25, dry=True
    ),
    "a loop that stops for its infeed": Fault("feeds", "'num_io_tiles': 32", looping(0), looping(32), 0.25, dry=True),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_a_dry_run_that_leaves_reads_out_is_told_of_no_result_that_nobody_reads() -> None:
    assert of_kind(dry(training(returns="all")), "results") == []


def predicting(*, given: str) -> Callable[[], Any]:
    """A function of a table and a batch: the table from the host at each call, its contents new at each call, or kept on the IPU."""

    def program() -> Any:
        kept = given == "kept"
        jitted = jax.jit(lambda table, x: (table if kept else None, x @ table), donate_argnums=0 if kept else ())
        table: Any = jax.device_put(WEIGHTS, jax.devices("ipu")[0]) if kept else WEIGHTS
        found: Any = None
        for number in range(STEPS):
            passed, found = jitted(table + number if given == "new" else table, np.full((8, 512), number, np.float32))
            table = passed if kept else table
        return found

    return program


@pytest.mark.slow
@pytest.mark.parametrize("is_dry", [False, True])
def test_an_array_of_the_host_that_comes_again_and_again_is_told_to_stay(is_dry: bool) -> None:
    edit = r"^put table on the IPU once \(jax.device_put\), return it unchanged and donate it$"
    check(Fault("donation", edit, predicting(given="same"), predicting(given="kept"), 0.02, "within 2 %", dry=is_dry))


@pytest.mark.slow
def test_arrays_of_the_host_with_new_contents_are_not_told_to_stay() -> None:
    profile = profiled(predicting(given="new"))
    assert not [finding.text for finding in profile.findings if "jax.device_put" in finding.text], profile.summary()
    [found] = of_kind(profile, "streaming")
    assert "which come with each call" in found.text


def test_what_another_program_makes_is_not_told_to_come_from_the_host() -> None:
    """Gradients of one function that another one takes: they stream because the two take turns, which is told."""

    def program() -> Any:
        gradient = jax.jit(jax.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).mean()))
        update = jax.jit(lambda w, g: w - 0.1 * g)
        w: Any = np.ones((512, 512), np.float32)
        for number in range(20):
            w = update(w, gradient(w, np.full((16, 512), number, np.float32)))
        return w

    assert not [finding for finding in profiled(program).findings if re.search(r"\bg\b", finding.edit)]
