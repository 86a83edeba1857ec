"""What tilestep says of a JAX program: it runs through jit on platform `ipu`, dry, with its state staying on the IPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np

import tilestep
from tilestep.figures.intervals import shares
from tilestep.figures.records import FamilyCycles
from tilestep.options import PlanOptions
from tilestep.units import seconds_from_cycles

# Calls over which the time of one call is averaged, and calls before them: transfers and dispatches overlap as they do in steady state.
CALLS = 8
WARM_UP = 2

Step = Callable[..., tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One call of a program on one machine."""

    compute_cycles: int  # of the slowest IPU, in supersteps
    exchange_cycles: int  # between tiles and between IPUs
    sync_cycles: int
    call_seconds: float  # from one call to the next in steady state, transfers from and to the host included
    to_ipus_bytes: int  # from the host, in one call
    to_host_bytes: int
    streams: int  # arrays to and from the host
    clock_hz: float
    num_tiles: int
    peak_tile_bytes: int
    values_bytes: int  # of values and temporaries at the peak, on all tiles of one IPU together
    tile_bytes: int  # that a tile has
    families: tuple[FamilyCycles, ...]  # of one call, largest first
    shares: Mapping[str, float] = field(default_factory=dict[str, float])  # of its time, by kind of work

    @property
    def seconds(self) -> float:
        """Of the supersteps of one call."""
        return seconds_from_cycles(self.cycles, self.clock_hz)

    @property
    def cycles(self) -> int:
        """Of the supersteps of one call."""
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles

    @property
    def fits(self) -> bool:
        """Whether the fullest tile holds it."""
        return self.fullness <= 1

    @property
    def fullness(self) -> float:
        """Of the fullest tile: 1 is full."""
        return self.peak_tile_bytes / self.tile_bytes


def predict(
    step: Step,
    state: Any,
    inputs: Sequence[Any] = (),
    *,
    machine: str,
    num_ipus: int = 1,
    options: PlanOptions | None = None,
    sharding: jax.sharding.PartitionSpec | None = None,
) -> Prediction:
    """What `state, outputs = step(state, *inputs)` takes when it is called again and again.

    Args:
        step: the new state has the shapes of the old one, and its place.
        state: shapes (`jax.ShapeDtypeStruct`) in any tree: what stays on the IPU, weights for example.
        inputs: shapes of what comes from the host at each call.
        machine: a name of the catalogue.
        num_ipus: that run the program; the machine is made to have as many.
        sharding: of every array of the state over the mesh axis 'ipus', which `step` may use, too.
    """
    use_machine(machine, num_ipus)
    devices = jax.devices("ipu")
    mesh = jax.sharding.Mesh(np.array(devices[:num_ipus]), ("ipus",))
    placed = jax.sharding.NamedSharding(mesh, sharding or jax.P()) if num_ipus > 1 else None
    how = {f"ipu_{name}": value for name, value in vars(options or PlanOptions()).items()}
    jitted = jax.jit(step, donate_argnums=0, compiler_options=how)
    with tilestep.dry_run(), jax.default_device(devices[0]), jax.set_mesh(mesh) if placed else contextlib.nullcontext():
        state = _made(state, placed)
        fresh = [np.zeros(shape.shape, shape.dtype) for shape in inputs]
        for _ in range(WARM_UP):
            state, outputs = jitted(state, *fresh)
        with tilestep.profile() as profile:
            for _ in range(CALLS):
                state, _ = jitted(state, *fresh)
            jax.block_until_ready(state)
    return _of(profile.profile, len(jax.tree.leaves((fresh, outputs))))


def use_machine(name: str, num_ipus: int) -> None:
    """Makes platform `ipu` that machine from now on, whatever the caller's own settings."""
    wanted = {"TILESTEP_MACHINE": name, "JAX_IPU_DEVICE_COUNT": str(num_ipus)}
    found = {variable: value for variable, value in os.environ.items() if variable.startswith(("TILESTEP_", "JAX_IPU_"))}
    if found != wanted:
        for variable in found:
            del os.environ[variable]
        os.environ.update(wanted)
        jax.extend.backend.clear_backends()


def _made(shapes: Any, sharding: jax.sharding.Sharding | None) -> Any:
    """Arrays of these shapes, made on the IPU."""
    make = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes), out_shardings=sharding)
    return make()


def _of(profile: tilestep.Profile, streams: int) -> Prediction:
    (program,) = profile.programs
    if program.fallback_ops:
        raise ValueError(f"{program.name} has operations without an estimator: {', '.join(program.fallback_ops)}")
    families = tuple(
        FamilyCycles(
            family=each.family,
            compute=each.compute // CALLS,
            exchange=each.exchange // CALLS,
            sync=each.sync // CALLS,
            host=each.host // CALLS,
        )
        for each in program.families
    )
    return Prediction(
        compute_cycles=program.cycles.compute // CALLS,
        exchange_cycles=program.cycles.exchange // CALLS,
        sync_cycles=program.cycles.sync // CALLS,
        call_seconds=profile.emulated_s / CALLS,
        to_ipus_bytes=program.host_bytes_in,
        to_host_bytes=program.host_bytes_out,
        streams=streams,
        clock_hz=profile.machine.clock_hz,
        num_tiles=profile.machine.num_tiles,
        peak_tile_bytes=program.peak_tile_bytes,
        values_bytes=program.values_bytes,
        tile_bytes=profile.machine.tile_sram_bytes,
        families=families,
        shares=shares([(program, 1)]),
    )
