"""Single operations that others measured: STREAM's kernels, a matrix times a vector."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, dtype_of, machine_of, numbers, rate
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
