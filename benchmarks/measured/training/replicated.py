"""Training runs whose model is on one IPU of each replica, by `tilestep.train.repeat` in a dry run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from benchmarks.measured.predict import use_machine
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.optimizers import optimizer_of
from benchmarks.measured.training.pipelined import plan_options
from benchmarks.measured.training.update import Update, peaks_of, shares_of
from tilestep.machine.host_call import UPDATE_SECONDS
from tilestep.train import Replicas, accumulate_gradients, cross_replica, infeed, repeat


@dataclass(frozen=True, kw_only=True)
class Replicated:
    """A model on one IPU.

    Attributes:
        loss: (params, an element's arrays as keyword arguments) -> float32[].
        params: shapes.
        element: shapes of a microbatch of one replica, by name.
    """

    loss: Callable[..., jax.Array]
    params: Any
    element: dict[str, jax.ShapeDtypeStruct]


def replicated_update(program: Replicated, conditions: TrainingConditions, *, machine: str) -> Update:
    """An update under the conditions. The host feeds each microbatch while the program waits, as with an infeed without I/O tiles."""
    use_machine(machine, conditions.number("replicas"))
    replicas = Replicas(devices=jax.devices("ipu")[: conditions.number("replicas")])
    optimizer = cross_replica(optimizer_of(conditions))
    numbers = np.arange(conditions.number("accumulation"), dtype=np.int32)

    def update(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        params, state = carry
        _, gradients = accumulate_gradients(
            program.loss, params, numbers, take=lambda _: infeed(None, program.element)[0], reduction="mean"
        )
        changes, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, changes), state

    with tilestep.dry_run(), jax.default_device(replicas.mesh.devices.flat[0]):
        params = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), program.params))()
        carry = (params, optimizer.init(params))
        options = plan_options(conditions, *conditions.proportions())
        carry = repeat(1, update, carry, replicas=replicas, plan_options=options)
        jax.block_until_ready(carry)
        with tilestep.profile() as profile:
            jax.block_until_ready(repeat(1, update, carry, replicas=replicas, plan_options=options))
    found = profile.profile
    call = UPDATE_SECONDS / conditions.updates_per_call
    return Update(
        seconds=found.emulated_s + call,
        sram_bytes=found.machine.tile_sram_bytes,
        peaks=peaks_of(found.programs),
        shares=shares_of([(program, 1) for program in found.programs], call / (found.emulated_s + call)),
    )
