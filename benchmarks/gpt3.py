"""What would a training step of GPT-3 take on a pod of 256 IPUs, does it fit, and how long does it take to find out?

A dry run: no value is computed and no memory taken for one. Several numbers of layers show how emulated time grows.

    python benchmarks/gpt3.py [--machine NAME] [--layers N ...] [--json FILE]

Exits 0 if the dry runs stay within 60 s each and 4 GiB of this computer's memory all together, 1 if not, 2 for bad input.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tilestep
from benchmarks.commit import commit
from benchmarks.memory import peak_bytes
from benchmarks.models import gpt

QUESTION = "what would a training step of GPT-3 take on a pod of 256 IPUs, and does it fit?"
AXES = {"data": 8, "model": 32}  # the mesh
BATCH = 8  # sequences per step
WALL_AT_MOST_S = 60
HOST_BYTES_AT_MOST = 4 << 30


@dataclass(frozen=True, kw_only=True)
class Step:
    """One training step of a GPT with so many layers."""

    layers: int
    parameters: int
    emulated_s: float  # supersteps and collectives of a step, its state on the IPUs
    emulated_cycles: int
    peak_tile_bytes: int
    tile_bytes: int  # that a tile has
    fits: bool
    wall_s: float  # from nothing to the figures


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--machine", default="bow-pod256", help="of 256 IPUs (default: %(default)s)")
    parser.add_argument("--layers", type=int, nargs="+", default=[24, 48, gpt.GPT3.layers], help="how many to try (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write a record to this file")
    options = parser.parse_args(arguments)
    os.environ["TILESTEP_MACHINE"] = options.machine
    try:
        mesh = _mesh()
        steps = [dry_step(replace(gpt.GPT3, layers=layers), mesh) for layers in options.layers]
    except (ValueError, tilestep.TilestepError) as error:
        print(f"gpt3: {error}", file=sys.stderr)
        return 2
    host_bytes = peak_bytes()
    print(f"{'layers':>7}{'parameters':>17}{'emulated':>11}{'per tile':>14}{'of':>12}  {'verdict':14}{'wall':>7}")
    for step in steps:
        verdict = "fits" if step.fits else "out of memory"
        sizes = f"{step.peak_tile_bytes:>12,} B{step.tile_bytes:>10,} B"
        print(f"{step.layers:7}{step.parameters:17,}{step.emulated_s:9.3f} s{sizes}  {verdict:14}{step.wall_s:5.1f} s")
    print(f"peak memory of this computer: {host_bytes / 2**30:.2f} GiB")
    if options.json:
        options.json.write_text(json.dumps(record(steps, options.machine, host_bytes), indent=1) + "\n", encoding="utf-8")
    return 0 if all(step.wall_s <= WALL_AT_MOST_S for step in steps) and host_bytes <= HOST_BYTES_AT_MOST else 1


def dry_step(model: gpt.Gpt, mesh: Mesh) -> Step:
    """One step on the mesh, its state made there."""
    start = time.perf_counter()
    cut = jax.tree.map(lambda spec: NamedSharding(mesh, spec), (gpt.specs(),) * 3, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec))
    shapes = gpt.state_shapes(model)
    with tilestep.dry_run():
        make = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes), out_shardings=cut)
        words = jax.device_put(np.zeros((BATCH, model.context + 1), np.int32), NamedSharding(mesh, PartitionSpec("data")))
        step = jax.jit(functools.partial(gpt.train_step, model), donate_argnums=0, out_shardings=(cut, None))
        state = make()
        with tilestep.profile() as profile:
            state, value = step(state, words)
            jax.block_until_ready((state, value))
    (program,) = profile.profile.programs
    cycles = program.cycles.compute + program.cycles.exchange + program.cycles.sync
    machine = profile.profile.machine
    return Step(
        layers=model.layers,
        parameters=model.num_parameters,
        emulated_s=cycles / machine.clock_hz,
        emulated_cycles=cycles,
        peak_tile_bytes=program.peak_tile_bytes,
        tile_bytes=machine.tile_sram_bytes,
        fits=program.peak_tile_bytes <= machine.tile_sram_bytes,
        wall_s=time.perf_counter() - start,
    )


def record(steps: Sequence[Step], machine: str, host_bytes: int) -> dict[str, Any]:
    """What the run found."""
    return {
        "question": QUESTION,
        "machine": machine,
        "mesh": AXES,
        "batch": BATCH,
        "commit": commit(),
        "versions": {"tilestep": tilestep.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "host_peak_bytes": host_bytes,
        "steps": [asdict(step) for step in steps],
    }


def _mesh() -> Mesh:
    devices = jax.devices("ipu")
    wanted = int(np.prod(list(AXES.values())))
    if len(devices) != wanted:
        raise ValueError(f"the mesh {AXES} needs {wanted} IPUs, but the machine has {len(devices)}")
    return Mesh(np.array(devices).reshape(*AXES.values()), tuple(AXES))


if __name__ == "__main__":
    sys.exit(main())
