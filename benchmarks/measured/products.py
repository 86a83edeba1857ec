"""Products of matrices: on one tile's matrix unit, and planned over all tiles."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
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
from tilestep.cost.products.amp import amp_1x1
from tilestep.cost.products.matrix_unit import matrix_unit
from tilestep.machine import load_machine
from tilestep.units import ceil_div


def on_tile(row: Row) -> Answer | LeftOut | None:
    """The compute phase of a product on each tile by itself: no superstep around it."""
    shape = numbers(r"\[(\d+),\s*(\d+)\]x\[(\d+),\s*(\d+)\] per tile", row.shape)
    if "on-tile matmul" not in row.workload or shape is None:
        return None
    positions, inner, rows, columns = shape
    if rows != inner:
        return LeftOut(reason="operands of which one has not as many columns as the other has rows")
    options = options_of(row.conditions)
    ipu = load_machine(machine_of(row)).ipu
    unit = matrix_unit(
        ipu,
        "half" if dtype_of(row) is jnp.float16 else "float",
        "float" if dtype_of(row) is jnp.float32 or "fp32 out" in row.dtype else options.partials_type,
        options.weight_load_bits,
    )
    blocks = np.array([ceil_div(inner, unit.in_channels)]), np.array([ceil_div(columns, unit.units)])
    cycles = int(amp_1x1(np.array([positions]), *blocks, np.array([1]), unit)[0])
    if row.unit == "cycles":
        return Answer(predicted=cycles)
    return Answer(predicted=rate(row, 2 * positions * inner * columns * ipu.num_tiles, cycles / ipu.clock_hz), kinds={"matmul": 1.0})


def dense(row: Row) -> Answer | LeftOut | None:
    """[m, k] x [k, n], as often per call as its conditions say; a square left operand is multiplied by each product anew."""
    sizes = _sizes(row.shape)
    if "dense matmul" not in row.workload or sizes is None:
        return None
    if row.n_ipus > 1:
        return LeftOut(reason="a product on several IPUs, whose cut among them is not part of the row")
    rows, inner, columns = sizes
    dtype, loop = dtype_of(row), loop_of(row)

    def step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        if rows != inner:
            return weights, weights @ x
        return weights, jax.lax.fori_loop(0, loop, lambda _, product: weights @ product, x)

    weights, x = jax.ShapeDtypeStruct((rows, inner), dtype), jax.ShapeDtypeStruct((inner, columns), dtype)
    prediction = predict(step, weights, (x,), machine=machine_of(row), options=options_of(row.conditions))
    times = loop if rows == inner else 1
    # Between the products of a loop nobody waits for the host.
    with_host = times == loop
    seconds = prediction.call_seconds if with_host else prediction.seconds
    flops = 2 * rows * inner * columns * times
    verdicts = measured_verdicts(row, prediction)
    return Answer(predicted=rate(row, flops, seconds), prediction=prediction, verdicts=verdicts, with_host=with_host)


def _sizes(shape: str) -> tuple[int, int, int] | None:
    """m, k and n of 'm=k=4096 n=1024', '64x32x16' or '[64,32]x[32,16]'; None for any other shape."""
    named = {name: int(size) for names, size in re.findall(r"\b([mkn](?:=[mkn])*)=(\d+)", shape) for name in names.split("=")}
    if len(named) == 3:  # m, k and n
        return named["m"], named["k"], named["n"]
    operands = numbers(r"\[(\d+),\s*(\d+)\]\s*x\s*\[(\d+),\s*(\d+)\]", shape)
    if operands is not None and operands[1] == operands[2]:
        return operands[0], operands[1], operands[3]
    plain = numbers(r"\b(\d+)x(\d+)x(\d+)\b", shape)
    return (plain[0], plain[1], plain[2]) if plain else None
