"""Pipelines whose parameters are in the host's memory, and loaded by tasks of their own, on emulated IPUs and on CPU."""

from typing import Any

import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import Pipeline, schedules
from tilestep.train.schedules import Kind, traced
from tilestep.train.untyped import jax, jnp

STAGES, WIDTH, ROWS, COUNT = 4, 64, 4, 2
RNG = np.random.default_rng(0)
PARAMS: list[Any] = [
    {"w": RNG.normal(0, 0.2, (WIDTH, WIDTH)).astype(np.float32), "b": RNG.normal(0, 0.2, WIDTH).astype(np.float32), "n": np.int32(1)}
    for _ in range(STAGES)
]
DATA = RNG.normal(size=(COUNT, ROWS, WIDTH)).astype(np.float32)
AWAY: Any = {"parameters": True}


def dense(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"]) * params["n"]


def loss(params: Any, x: Any) -> Any:
    return (dense(params, x) ** 2).sum()


def reference(updates: int, rate: float = 0.05) -> tuple[list[Any], list[float]]:
    """(the parameters after some updates with momentum 0.9, the losses of the last one), in float64 of NumPy."""
    params = [{name: value.astype(np.float64) for name, value in own.items() if name != "n"} for own in PARAMS]
    traces = [{name: np.zeros_like(value) for name, value in own.items()} for own in params]
    losses: list[float] = []
    for _ in range(updates):
        sums = [{name: np.zeros_like(value) for name, value in own.items()} for own in params]
        losses = []
        for x in DATA.astype(np.float64):
            hidden = [x]
            for own in params:
                hidden.append(np.tanh(hidden[-1] @ own["w"] + own["b"]))
            losses.append(float((hidden[-1] ** 2).sum()))
            gradient = 2 * hidden[-1]
            for stage in reversed(range(STAGES)):
                gradient = gradient * (1 - hidden[stage + 1] ** 2)
                sums[stage]["w"] += hidden[stage].T @ gradient
                sums[stage]["b"] += gradient.sum(0)
                gradient = gradient @ params[stage]["w"].T
        for own, trace, gradients in zip(params, traces, sums, strict=True):
            for name in own:
                trace[name] = 0.9 * trace[name] + gradients[name]
                own[name] = own[name] - rate * trace[name]
    return params, losses


def pipeline(*, training: bool = True, platform: str = "ipu", devices: int = 2, offload: Any = AWAY, **options: Any) -> Pipeline:
    settings: Any = {"pipeline_schedule": "sequential", "strict": False, "program": "stages"}
    optimizer = optax.sgd(0.05, momentum=0.9) if training else None
    return Pipeline(
        [*[dense] * (STAGES - 1), loss if training else dense],
        optimizer,
        COUNT,
        devices=jax.devices(platform),
        device_mapping=[stage % devices for stage in range(STAGES)],
        offload_optimizer_state=offload,
        **settings | options,
    )


def kinds(tree: Any) -> set[str]:
    return {leaf.sharding.memory_kind for leaf in jax.tree.leaves(tree) if leaf.size > 1}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("platform", "devices", "options"),
    [
        ("ipu", 2, {}),
        ("cpu", 3, {"pipeline_schedule": "zero_bubble", "check_nans": True}),
        ("cpu", 1, {"offload": AWAY | {"accumulators": True, "optimizer_state": True}, "recompute": "full"}),
        ("cpu", 1, {"pipeline_schedule": "grouped", "offload_activations": True}),
    ],
)
def test_training_gives_what_numpy_does_and_parameters_stay_where_they_were(platform: str, devices: int, options: Any) -> None:
    made = pipeline(platform=platform, devices=devices, **options)
    assert made.schedule.loads_parameters == set(range(STAGES))
    state: Any = made.init(PARAMS)
    losses: Any = None
    for _ in range(2):
        before = [leaf for leaf in jax.tree.leaves(state.params) if leaf.size > 1]
        state, losses = made.step(state, DATA)
        assert all(leaf.is_deleted() for leaf in before)  # they are donated
        assert kinds(state.params) == {"pinned_host"}
    params, expected = reference(2)
    for own, other in zip(state.params, params, strict=True):
        for name in other:
            np.testing.assert_allclose(np.asarray(own[name]), other[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(losses).reshape(-1), expected, rtol=1e-4)


def test_one_program_cannot_load_ahead() -> None:
    with pytest.raises(ValueError, match="something of it is in the host's memory"):
        pipeline(training=False, program="single")


# --------------------------------------------------------------------------------------------- memory and time of emulated IPUs


def profiled(made: Pipeline, params: Any, data: Any) -> Any:
    """The profile of a second step, in which nothing is computed. Args: params: a function that makes them."""
    with tilestep.dry_run():
        state, _ = jax.block_until_ready(made.step(made.init(params() if callable(params) else params), data))
        with tilestep.profile() as found:
            jax.block_until_ready(made.step(state, data))
    return found.profile


def test_a_trace_tells_when_parameters_were_loaded() -> None:
    made = pipeline()
    profile = profiled(made, PARAMS, DATA)
    timeline = traced(made.schedule, profile.timeline)
    loads = [task for task in timeline.begin if task.kind is Kind.LOAD_PARAMETERS]
    assert len(loads) == sum(task.kind is Kind.LOAD_PARAMETERS for row in made.schedule.tasks for task in row)
    assert all(timeline.end[task] > timeline.begin[task] for task in loads)
    assert schedules.costs_of(made.schedule, timeline).load_parameters[0] > 0
