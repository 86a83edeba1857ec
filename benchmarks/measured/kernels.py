"""Single operations that others measured: STREAM's kernels, a stencil, a matrix times a vector."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, dtype_of, loop_of, machine_of, numbers, rate
from benchmarks.measured.predict import Prediction, predict
from benchmarks.measured.rows import Row
from tilestep.machine import load_machine

# Of a tile's memory that STREAM's arrays fill where a row does not say: 194.2 MB of 1,216 tiles of 256 KiB
# (UoB-HPC/BabelStream@d0ddb25 results/v3.4/graphcore-c2-ipu). Its rate hardly depends on it.
_STREAM_FILLS = 0.6


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    compute: Callable[..., jax.Array]
    reads: int  # arrays
    flops: int  # per element


_STREAM = {  # McCalpin 1995
    "copy": _Kernel(compute=lambda b: jnp.copy(b), reads=1, flops=0),
    "scale": _Kernel(compute=lambda b: 3 * b, reads=1, flops=1),
    "add": _Kernel(compute=lambda b, c: b + c, reads=2, flops=1),
    "triad": _Kernel(compute=lambda b, c: b + 3 * c, reads=2, flops=2),
}
_CHANNELS = 4
_WEIGHTS = (1, 2, 1)  # of the blur, in each direction


def stream(row: Row) -> Answer | LeftOut | None:
    """STREAM's kernels: bytes read and written per second, or operations."""
    name = re.match(r"STREAM (\w+)", row.workload)
    kernel = _STREAM.get(name[1].casefold()) if name else None
    if kernel is None:
        return None
    machine = machine_of(row)
    ipu = load_machine(machine).ipu
    dtype = dtype_of(row)
    width = jnp.dtype(dtype).itemsize
    shape = numbers(r"(\d+)x(\d+) floats per tile", row.shape)
    arrays = kernel.reads + 1
    per_tile = shape[0] * shape[1] if shape else int(ipu.tile.sram_bytes * _STREAM_FILLS / arrays / width)
    array = jax.ShapeDtypeStruct((per_tile * ipu.num_tiles,), dtype)
    run = predict(lambda operands: (operands, kernel.compute(*operands)), (array,) * kernel.reads, machine=machine)
    amount = kernel.flops * array.size if row.unit.strip().endswith(("FLOPS", "FLOP/s")) else arrays * array.size * width
    return Answer(predicted=rate(row, amount, run.seconds), prediction=run)


def blur(row: Row) -> Answer | LeftOut | None:
    """A 3x3 stencil over an RGBA image, again and again: time of all passes, or cycles of a pass by phase."""
    image = numbers(r"(\d+)x(\d+)", row.shape)
    if not ("stencil" in row.workload or "Gaussian blur BSP phase" in row.workload) or row.metric == "compile time" or image is None:
        return None
    width, height = image
    passes = numbers(r"(\d+) passes", row.workload)
    dtype = jnp.float16 if row.dtype.startswith("half") else jnp.float32
    run = _blurred(height, width, dtype, row.n_ipus, machine_of(row))
    if "phase" not in row.workload:
        count = passes[0] if passes else loop_of(row)
        return Answer(predicted=rate(row, count, run.seconds * count), prediction=run)
    moved = sum(family.compute for family in run.families if family.family in ("rearrange", "copy"))
    phases = {
        "sync": run.sync_cycles,
        "exchange": run.exchange_cycles,
        "pre+post rearrange": moved,
        "compute": run.compute_cycles - moved,
    }
    phase = row.workload.rpartition(": ")[2]
    if phase not in phases:
        return LeftOut(reason=f"phase {phase!r} of a stencil is none of {', '.join(phases)}")
    return Answer(predicted=phases[phase], prediction=run)


@functools.cache
def _blurred(height: int, width: int, dtype: type, num_ipus: int, machine: str) -> Prediction:
    """One pass; the image is cut by rows, padded to a whole number of them per IPU, which swap the rows at their edges."""
    rows = -(-height // num_ipus)

    def weighted(padded: jax.Array) -> jax.Array:
        taps = ((y, x, _WEIGHTS[y] * _WEIGHTS[x] / 16) for y in range(3) for x in range(3))
        return sum(padded[y : y + rows, x : x + width] * jnp.asarray(weight, dtype) for y, x, weight in taps)  # type: ignore[return-value]  # a sum of arrays is one

    def alone(image: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return weighted(jnp.pad(image, ((1, 1), (1, 1), (0, 0)))), ()

    def one_of_many(image: jax.Array) -> jax.Array:
        above = jax.lax.ppermute(image[-1:], "ipus", [(ipu, ipu + 1) for ipu in range(num_ipus - 1)])
        below = jax.lax.ppermute(image[:1], "ipus", [(ipu + 1, ipu) for ipu in range(num_ipus - 1)])
        whole = jax.lax.optimization_barrier(jnp.concatenate([above, image, below]))  # else XLA joins them anew for each slice
        return weighted(jnp.pad(whole, ((0, 0), (1, 1), (0, 0))))

    def together(image: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return jax.shard_map(one_of_many, in_specs=jax.P("ipus"), out_specs=jax.P("ipus"))(image), ()

    state = jax.ShapeDtypeStruct((rows * num_ipus, width, _CHANNELS), dtype)
    step = alone if num_ipus == 1 else together
    return predict(step, state, machine=machine, num_ipus=num_ipus, sharding=jax.P("ipus"))


def matrix_vector(row: Row) -> Answer | LeftOut | None:
    """Phases of a matrix times a vector, with the matrix on the IPU."""
    shape = numbers(r"(\d+)x(\d+)", row.shape)
    if not row.workload.startswith("matrix-vector") or shape is None:
        return None
    run = _matrix_vector(*shape, machine_of(row))
    phases = {"compute": run.compute_cycles, "exchange": run.exchange_cycles, "sync": run.sync_cycles}
    for phase, cycles in phases.items():
        if phase in row.workload:
            return Answer(predicted=cycles, prediction=run)
    return LeftOut(reason=f"names none of the phases {', '.join(phases)}")


@functools.cache
def _matrix_vector(height: int, width: int, machine: str) -> Prediction:
    matrix, vector = jax.ShapeDtypeStruct((height, width), jnp.float32), jax.ShapeDtypeStruct((width,), jnp.float32)
    return predict(lambda m, x: (m, m @ x), matrix, (vector,), machine=machine)
