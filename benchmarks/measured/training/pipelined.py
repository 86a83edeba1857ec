"""Training runs whose model is in stages, by `tilestep.train.Pipeline` in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import tilestep
from benchmarks.measured.front_ends import fusion_of
from benchmarks.measured.predict import use_machine
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.optimizers import accumulators_of, group_size_of, is_off_chip, is_sharded, optimizer_of
from benchmarks.measured.training.update import Update, peaks_of, shares_of
from tilestep.machine.host_call import UPDATE_SECONDS
from tilestep.train import Pipeline
from tilestep.train.schedules import Task, traced
from tilestep.train.schedules.schedule import Kind
from tilestep.train.schedules.trace import TraceEvent
from tilestep.units import seconds_from_cycles

MORE: Final = 4  # microbatches during which all stages are busy


@dataclass(frozen=True, kw_only=True)
class Pipelined:
    """A model in stages.

    Attributes:
        stages: of `Pipeline`; each has a keyword-only parameter `key`.
        params: shapes of each stage's parameters.
        element: shapes of a microbatch of one replica.
        ipus: each stage's IPU within its replica.
        tied: as for `Pipeline`.
        key: whether the stages draw random numbers.
    """

    stages: tuple[Callable[..., Any], ...]
    params: list[Any]
    element: Any
    ipus: tuple[int, ...]
    tied: tuple[list[tuple[Any, ...]], ...] = ()
    key: bool = True


def pipelined_update(program: Pipelined, conditions: TrainingConditions, *, machine: str) -> Update:
    """An update under the conditions, in steady state.

    Once all stages are busy each microbatch takes as long as the one before. So an update of few microbatches is run, and those that the
    published one has more are added.
    """
    use_machine(machine, conditions.num_ipus)
    published = conditions.number("accumulation")
    count = min(published, 2 * len(program.stages) + MORE)
    seconds, pitch_cycles, profile = _update(program, conditions, count)
    more = (published - count) * seconds_from_cycles(pitch_cycles, profile.machine.clock_hz)
    call = UPDATE_SECONDS / conditions.updates_per_call
    repeated = [(program, published / count if program.runs >= count else 1) for program in profile.programs]
    return Update(
        seconds=seconds + more + call,
        sram_bytes=profile.machine.tile_sram_bytes,
        peaks=peaks_of(profile.programs),
        shares=shares_of(repeated, call / (seconds + more + call)),
    )


def _update(program: Pipelined, conditions: TrainingConditions, count: int) -> tuple[float, int, tilestep.Profile]:
    """Seconds of an update, cycles of one more microbatch, the profile."""
    replicas = conditions.number("replicas")
    devices = jax.devices("ipu")[: conditions.num_ipus]
    pipeline = Pipeline(
        program.stages,
        optimizer_of(conditions),
        count,
        devices=devices,
        device_mapping=program.ipus,
        replicas=replicas,
        reduction="mean",
        gradient_accumulation_dtype=accumulators_of(conditions),
        offload_optimizer_state=is_off_chip(conditions),
        shard_optimizer_state=is_sharded(conditions) and (group_size_of(conditions) or True),
        tied=program.tied,
        outfeed_loss=True,
        plan_options=[plan_options(conditions, proportion) for proportion in conditions.proportions()],
        strict=False,
    )
    leading = (count, replicas) if replicas > 1 else (count,)
    with tilestep.dry_run(), jax.default_device(devices[0]):
        make = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), program.params))
        state = pipeline.init(make())
        data = jax.tree.map(lambda shape: np.zeros((*leading, *shape.shape), shape.dtype), program.element)
        key = jax.random.key(0, impl="unsafe_rbg") if program.key else None  # the tiles' own generator
        state, loss = pipeline.step(state, data, key=key)
        jax.block_until_ready((state, loss))
        with tilestep.profile() as profile:
            jax.block_until_ready(pipeline.step(state, data, key=key))
    return profile.profile.emulated_s, _pitch(pipeline, profile.timeline), profile.profile


def _pitch(pipeline: Pipeline, events: Sequence[TraceEvent]) -> int:
    """Cycles from one microbatch to the next while all stages are busy: the first stage's last forwards begin so far apart.

    Raises: ValueError if they are not equally far apart.
    """
    devices = set(pipeline.schedule.device_mapping)  # of the first replica; the others do the same
    timeline = traced(pipeline.schedule, [event for event in events if event.ipu in devices])
    count = pipeline.schedule.microbatches
    forwards = [timeline.begin[Task(0, Kind.FORWARD, microbatch)] for microbatch in range(count)]
    last, before = forwards[-1] - forwards[-2], forwards[-2] - forwards[-3]
    if last != before:
        raise ValueError(f"microbatches of {pipeline} take {before:,} and {last:,} cycles, one after the other: they must be equal")
    return int(last)


def plan_options(conditions: TrainingConditions, proportion: float) -> dict[str, Any]:
    """A stage's plan options."""
    return {
        "partials_type": "half" if conditions.partials.startswith("half") else "float",
        "available_memory_proportion": proportion,
        "num_io_tiles": conditions.number("io_tiles"),
        "fusion": fusion_of(conditions.source),
    }
