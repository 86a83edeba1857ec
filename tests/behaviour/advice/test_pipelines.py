"""Gains of other cuts, of more microbatches and of another schedule."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.behaviour.advice.fault import Fault, check, dry, of_kind, profiled
from tilestep.advice import evidence_of
from tilestep.advice.host.set_up import steady_state
from tilestep.train import Pipeline


def stage(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def repeated(params: Any, x: Any, times: int = 96) -> Any:
    """The same parameters many times, so that they take little time to come."""
    return jax.lax.scan(lambda x, _: (stage(params, x), None), x, None, length=times)[0]


def long(params: Any, x: Any) -> Any:
    return repeated(params, x, 2000)


def trained(
    of_stage: Callable[..., Any],
    layers: Sequence[int],
    *,
    microbatches: int,
    schedule: str = "grouped",
    width: int = 128,
    batch: int = 16,
    samples: int = 2048,
    offload_activations: bool = False,
) -> Callable[[], Any]:
    """The same samples, whatever the number of microbatches in a step and of samples in a microbatch."""

    def first(params: Any, x: Any) -> Any:
        return of_stage(params, jnp.tile(x, (1, width // 8)))

    def to_loss(params: Any, x: Any) -> Any:
        return (of_stage(params, x) ** 2).mean()

    def program() -> Any:
        pipeline = Pipeline(
            [first, *[of_stage] * (len(layers) - 2), to_loss],
            optax.sgd(1e-3),
            microbatches,
            devices=jax.devices("ipu"),
            device_mapping=list(range(len(layers))),
            pipeline_schedule=schedule,
            offload_activations=offload_activations,
        )
        state: Any = pipeline.init([[np.full((width, width), 0.01, np.float32)] * count for count in layers])
        for _ in range(samples // batch // microbatches):
            state, _ = pipeline.step(state, np.ones((microbatches, batch, 8), np.float32))
        return state.params

    return program


ALIKE = (1, 1, 1, 1)
FAULTS = {
    "stages that differ": Fault(
        "pipeline",
        "into stages of 2, 2, 2 products in place of 1, 4, 1$",
        trained(stage, (1, 4, 1), microbatches=6, width=512, batch=2048, samples=36 * 2048),
        trained(stage, (2, 2, 2), microbatches=6, width=512, batch=2048, samples=36 * 2048),
        0.25,
        dry=True,
    ),
    "small microbatches": Fault(
        "products",
        r"^make microbatches of pipeline \d+ of 64 samples in place of 16, in fewer steps$",
        trained(stage, (2, 2, 2, 2), microbatches=16),
        trained(stage, (2, 2, 2, 2), microbatches=16, batch=64),
        0.25,
        dry=True,
    ),
    "few microbatches": Fault(
        "bubbles",
        "^use 32 microbatches in place of 8",
        trained(repeated, ALIKE, microbatches=8, batch=256, samples=3 * 2**15),
        trained(repeated, ALIKE, microbatches=32, batch=256, samples=3 * 2**15),
        0.1,
        dry=True,
    ),
    "one microbatch after the other": Fault(
        "bubbles",
        "^use pipeline_schedule='grouped'",
        trained(long, (1, 1), microbatches=4, schedule="sequential", samples=256),
        trained(long, (1, 1), microbatches=4, samples=256),
        0.25,
        dry=True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "few microbatches")) for name in FAULTS])
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_a_pipeline_that_only_began_has_a_summary() -> None:
    """Its first state is copied to all replicas: a program over several IPUs runs, and nothing is exchanged."""

    def program() -> None:
        stages = [lambda w, x: x @ w, lambda w, x: (x @ w).mean()]
        pipeline = Pipeline(stages, optax.sgd(1e-3, momentum=0.9), 4, devices=jax.devices("ipu"), replicas=2)
        pipeline.init([np.eye(8, dtype=np.float32), np.ones((8, 1), np.float32)])

    assert profiled(program).summary().startswith("tilestep: fits: jit_init")


def test_an_optimizer_without_state_starts_no_program() -> None:
    def program() -> None:
        stages = [lambda w, x: x @ w, lambda w, x: (x @ w).mean()]
        pipeline = Pipeline(stages, optax.sgd(1e-3), 4, devices=jax.devices("ipu"), replicas=2)
        pipeline.init([np.eye(8, dtype=np.float32), np.ones((8, 1), np.float32)])

    assert profiled(program).programs == ()


@pytest.mark.parametrize("replicas", [1, 2])
def test_items_of_a_step_are_those_of_all_microbatches_and_replicas(replicas: int) -> None:
    rows = (4, 16) if replicas == 1 else (4, replicas, 16)

    def program() -> None:
        pipeline = Pipeline(
            [lambda w, x, y: (x @ w, y), lambda w, x, y: ((x @ w - y) ** 2).mean()],
            optax.sgd(1e-3),
            4,
            devices=jax.devices("ipu")[: 2 * replicas],
            replicas=replicas,
        )
        state: Any = pipeline.init([np.eye(8, dtype=np.float32), np.ones((8, 1), np.float32)])
        for step in range(6):
            state, _ = pipeline.step(state, (np.full((*rows, 8), step, np.float32), np.full((*rows, 1), step, np.float32)))

    steady = profiled(program).steady
    assert steady is not None
    assert steady.samples == 4 * replicas * 16


def test_a_step_of_offloaded_activations_counts_once_though_each_of_its_arrays_has_a_program() -> None:
    profile = profiled(trained(stage, (2, 2), microbatches=4, width=32, samples=16 * 4 * 8, offload_activations=True))
    evidence = evidence_of(profile)
    assert evidence is not None
    steady = steady_state(profile, evidence)
    assert steady is not None
    assert steady.steps == 8
    assert steady.text(1e9).endswith("; 8 ran.")


def test_of_another_cut_a_warm_step_alone_is_promised() -> None:
    """The parameters of a stage come with all microbatches of the first step, and other ones after the cut: a short run gets longer."""
    before, after = (dry(trained(stage, layers, microbatches=4, width=1024, batch=64, samples=5 * 4 * 64)) for layers in ((1, 5), (3, 3)))
    [found] = of_kind(before, "pipeline")
    assert found.gain is not None
    assert found.gain.step_share is not None
    assert found.gain.step_share > 0.2
    assert after.emulated_cycles > before.emulated_cycles
    assert found.gain.as_document()["gain_share"] is None
    assert " of a warm step, " in str(found.gain)
    assert "of all" not in found.headline
