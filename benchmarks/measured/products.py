"""Products of matrices: on one tile's matrix unit, and planned over all tiles."""

from __future__ import annotations

import jax
import numpy as np

from benchmarks.measured.answer import (
    Answer,
    LeftOut,
    dtype_of,
    loop_of,
    machine_of,
    measured_verdicts,
    numbers,
    options_of,
    rate,
)
from benchmarks.measured.predict import predict
from benchmarks.measured.rows import Row
from tilestep.cost.amp import amp_1x1, matrix_unit
from tilestep.machine import load_machine
from tilestep.units import ceil_div


def on_tile(row: Row) -> Answer | LeftOut | None:
    """The compute phase of a product on each tile by itself: no superstep around it."""
    shape = numbers(r"\[(\d+),\s*(\d+)\]x\[(\d+),\s*(\d+)\] per tile", row.shape)
    if "on-tile matmul" not in row.workload or shape is None:
        return None
    positions, inner, _, columns = shape
    options = options_of(row.conditions)
    ipu = load_machine(machine_of(row)).ipu
    unit = matrix_unit(
        ipu,
        "half" if row.dtype.startswith("fp16") else "float",
        "float" if row.dtype.startswith("fp32") or "fp32 out" in row.dtype else options.partials_type,
        options.weight_load_bits,
    )
    blocks = np.array([ceil_div(inner, unit.in_channels)]), np.array([ceil_div(columns, unit.units)])
    cycles = int(amp_1x1(np.array([positions]), *blocks, np.array([1]), unit)[0])
    if row.unit == "cycles":
        return Answer(predicted=cycles)
    return Answer(predicted=rate(row, 2 * positions * inner * columns * ipu.num_tiles, cycles / ipu.clock_hz))


def dense(row: Row) -> Answer | LeftOut | None:
    """[m, k] x [k, n] in a loop on the IPU, each product the right operand of the next."""
    square = numbers(r"\bm=k=(\d+) n=(\d+)", row.shape)
    if "dense matmul" not in row.workload or square is None:
        return None
    size, columns = square
    dtype, loop = dtype_of(row), loop_of(row)

    def step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return weights, jax.lax.fori_loop(0, loop, lambda _, product: weights @ product, x)

    prediction = predict(
        step,
        jax.ShapeDtypeStruct((size, size), dtype),
        (jax.ShapeDtypeStruct((size, columns), dtype),),
        machine=machine_of(row),
        options=options_of(row.conditions),
    )
    flops = 2 * size * size * columns * loop
    return Answer(predicted=rate(row, flops, prediction.call_seconds), prediction=prediction, verdicts=measured_verdicts(row, prediction))
