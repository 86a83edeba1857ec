"""Pipelines on four emulated IPUs; `test_pipelines_on_ipu.py` starts processes that have them, with two sync patterns."""

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.machine import load_machine
from tilestep.sim.cycles.collective import pass_cost
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.schedules.schedule import Costs, Timeline
from tilestep.train.schedules.trace import costs_of, traced

MACHINE = load_machine("bow-2000")
WIDTH, ROWS = 32, 16
HOST: Literal["apart", "together"] = "together" if os.environ["TILESTEP_SYNC_PATTERN"] == "full" else "apart"
AROUND = [0, 1, 3, 2]  # IPUs in an order in which each is a neighbour of the next


def dense(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def loss(params: Any, x: Any) -> Any:
    return (dense(params, x) ** 2).mean()


def weights(rng: np.random.Generator, layers: int) -> list[np.ndarray]:
    return [rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for _ in range(layers)]


class Traced(NamedTuple):
    pipeline: Pipeline
    profile: Any
    timeline: Timeline
    state: Any


COUNT = 16


@functools.cache
def chain(schedule: str) -> Traced:
    rng = np.random.default_rng(0)
    pipeline = Pipeline(
        [dense, dense, dense, loss],
        optax.sgd(0.1),
        COUNT,
        pipeline_schedule=schedule,
        devices=jax.devices("ipu"),
        device_mapping=AROUND,
    )
    return steps(pipeline, [weights(rng, 1) for _ in range(4)], COUNT)


def concurrent(schedule: str) -> Traced:
    rng, count = np.random.default_rng(0), 12
    pipeline = Pipeline(
        [dense, [dense, dense], lambda params, x, y: loss(params, x + y)],
        optax.sgd(0.1),
        count,
        pipeline_schedule=schedule,
        devices=jax.devices("ipu"),
        device_mapping=[0, [1, 2], 3],
    )
    return steps(pipeline, [weights(rng, 1), [weights(rng, 1), weights(rng, 1)], weights(rng, 1)], count)


def steps(pipeline: Pipeline, params: Any, count: int, elements: np.ndarray | None = None) -> Traced:
    """The second of two updates, when everything is loaded. Args: elements: of each; None: normal numbers."""
    state = pipeline.init(params)
    rng = np.random.default_rng(1)
    profile: Any = None
    for _ in range(2):
        x = rng.normal(size=(count, ROWS, WIDTH)).astype(np.float32) if elements is None else elements
        with tilestep.profile() as recording:
            state, losses = pipeline.step(state, x)
            jax.block_until_ready((state, losses))
        profile = recording.profile
    return Traced(pipeline, profile, traced(pipeline.schedule, profile.timeline), state)


def with_transfers(done: Traced, mapping: Sequence[int]) -> Costs:
    """The costs of the trace's tasks, those of exchanges by themselves, and what elements and putting the losses together take."""
    schedule = done.pipeline.schedule
    transfers = [0.0] * schedule.stages
    for level, members in enumerate(schedule.levels[1:]):
        for giver in schedule.levels[level]:
            passed = [pass_cost(MACHINE, [(mapping[giver], mapping[taker], 4 * ROWS * WIDTH)]) for taker in members]
            (transfers[giver],) = {cost.sync_cycles + cost.exchange_cycles for cost in passed}
    events = done.profile.timeline
    (element,) = {event.end_cycle - event.start_cycle for event in events if event.kind == "stream-in"}
    (results,) = {event.end_cycle - event.start_cycle for event in events if event.kind == "stream-out"}
    last = [event for event in events if event.ipu == mapping[-1]]
    ended = max(event.end_cycle for event in last if "stage" in event.program)
    after = sum(event.end_cycle - event.start_cycle for event in last if event.start_cycle >= ended)
    return replace(costs_of(schedule, done.timeline), transfer=transfers, element=element, collect=after - results, results=results)


def of_programs(timeline: Timeline) -> dict[str, tuple[float, float]]:
    """When tasks that take time do so, from the first one's begin on."""
    first = min(timeline.begin.values())
    return {str(task): (begin - first, timeline.end[task] - first) for task, begin in timeline.begin.items() if timeline.end[task] > begin}


@pytest.mark.parametrize("schedule", ["sequential", "grouped", "interleaved", "zero_bubble", "stale"])
def test_the_trace_is_what_simulate_says(schedule: str) -> None:
    """Of each task, to the cycle."""
    done = chain(schedule)
    simulated = done.pipeline.schedule.simulate(with_transfers(done, AROUND), exchanges="together", host=HOST)
    assert of_programs(done.timeline) == of_programs(simulated)
    assert (done.timeline.makespan, done.timeline.busy, done.timeline.bubble) == (simulated.makespan, simulated.busy, simulated.bubble)


@pytest.mark.parametrize("schedule", ["sequential", "grouped", "interleaved"])
def test_so_it_is_with_concurrent_stages(schedule: str) -> None:
    done = concurrent(schedule)
    simulated = done.pipeline.schedule.simulate(with_transfers(done, range(4)), exchanges="together", host=HOST)
    assert of_programs(done.timeline) == of_programs(simulated)
    left, right = (done.timeline.busy[device] for device in (1, 2))
    assert left == right


def test_a_run_is_one_program_per_ipu() -> None:
    done = chain("grouped")
    profile = done.profile
    assert sum(program.loads for program in profile.programs) == 0  # the first update loaded it
    assert profile.dispatches == 0  # launches of a group are counted as none of a program's
    element_bytes = 4 * ROWS * WIDTH
    came = {program.name: program.host_bytes_in for program in profile.programs if program.host_bytes_in}
    assert came == {"jit_stage_0_forward": element_bytes}  # weights, activations and gradients stay on the chips
    *_, group = profile.groups  # others have programs of the same content
    assert re.fullmatch(r"pipeline \d+", group.name)
    own = [name for name in group.programs if name.startswith(f"jit_stage_{AROUND.index(group.ipu)}_")]  # of the fullest IPU
    assert len(own) >= 2
    assert own == [name for name in group.programs if name.startswith("jit_stage_")]
    assert {event.ipu for event in profile.timeline if event.kind == "collective"} == {0, 1, 2, 3}


def masked(params: Any, x: Any) -> Any:
    """Attention of places to those before: what takes the place of the others is known to no gradient."""
    scores = jnp.where(jnp.tri(ROWS, dtype=bool), (x @ params[0]) @ x.T, -jnp.inf)
    return jax.nn.softmax(scores) @ x


def test_what_backward_does_not_read_is_not_kept() -> None:
    pipeline = Pipeline([masked, loss], optax.sgd(0.1), 4, devices=jax.devices("ipu"))
    rng = np.random.default_rng(0)
    done = steps(pipeline, [weights(rng, 1), weights(rng, 1)], 4)
    assert {program.name for program in done.profile.programs if program.host_bytes_out} == {"jit__stacked"}


def test_a_parameter_of_two_stages_stays_where_its_update_has_made_it() -> None:
    """All that comes from the host is the elements, each once. On another IPU a copy comes over IPU-Links for each update, and stays."""
    table, count, words = np.float32(np.random.default_rng(0).normal(0, 0.1, (256, WIDTH))), 4, np.zeros((4, ROWS), np.int32)

    def embed(params: Any, tokens: Any) -> Any:
        return params["table"][tokens]

    def head(params: Any, x: Any) -> Any:
        return jax.nn.log_softmax(x @ params["table"].T).mean()

    def brought_in(mapping: list[int]) -> dict[str, int]:
        pipeline = Pipeline(
            [embed, lambda params, x: jnp.tanh(x @ params), head],
            optax.adam(0.1),
            count,
            tied=[[(0, "table"), (2, "table")]],
            devices=jax.devices("ipu"),
            device_mapping=mapping,
            strict=False,
        )
        done = steps(pipeline, [{"table": table}, np.eye(WIDTH, dtype=np.float32), {"table": table}], count, words)
        return {program.name: program.runs * program.host_bytes_in for program in done.profile.programs if program.host_bytes_in}

    elements = {"jit_stage_0_forward": words.nbytes}
    assert brought_in([0, 1, 0]) == elements
    assert brought_in([0, 1, 2]) == elements


def test_several_updates_of_one_profile_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    pipeline = Pipeline([dense, loss], optax.sgd(0.1), 4, devices=jax.devices("ipu"))
    state = pipeline.init([weights(rng, 1), weights(rng, 1)])
    with tilestep.profile() as recording:
        for _ in range(3):
            state, losses = pipeline.step(state, rng.normal(size=(4, ROWS, WIDTH)).astype(np.float32))
            jax.block_until_ready(losses)
    events = recording.profile.timeline
    assert traced(pipeline.schedule, events).makespan == traced(pipeline.schedule, events, update=1).makespan
    with pytest.raises(ValueError, match="it must cover whole updates, and update is 3"):
        traced(pipeline.schedule, events, update=3)
    with pytest.raises(ValueError, match=r"has runs of stages' programs on IPUs \[0, 1\], but the schedule grouped has 3 devices"):
        traced(Pipeline([dense, dense, loss], optax.sgd(0.1), 6, devices=jax.devices("ipu")).schedule, events)
    other = Pipeline([dense, loss], optax.sgd(0.1), 4, pipeline_schedule="sequential", devices=jax.devices("ipu")).schedule
    with pytest.raises(ValueError, match="the trace has FORWARD on IPU 0 where the schedule sequential has the task 0B0"):
        traced(other, events)
