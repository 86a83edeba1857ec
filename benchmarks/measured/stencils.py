"""Stencils that others measured: a blur of images, heat on meshes of two and three dimensions, a model of the heart."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, dtype_of, loop_of, machine_of, numbers, rate
from benchmarks.measured.predict import Prediction, predict
from benchmarks.measured.rows import Row

_CHANNELS = 4
_WEIGHTS = (1, 2, 1)  # of the blur, in each direction


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
        return weighted(jnp.pad(_with_edges(image, num_ipus), ((0, 0), (1, 1), (0, 0))))

    def together(image: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return jax.shard_map(one_of_many, in_specs=jax.P("ipus"), out_specs=jax.P("ipus"))(image), ()

    state = jax.ShapeDtypeStruct((rows * num_ipus, width, _CHANNELS), dtype)
    step = alone if num_ipus == 1 else together
    return predict(step, state, machine=machine, num_ipus=num_ipus, sharding=jax.P("ipus"))


def mesh(row: Row) -> Answer | LeftOut | None:
    """Time of all steps of an equation on a mesh of floats: heat, with its two neighbours in each dimension, or Aliev and Panfilov's."""
    steps = numbers(r"(\d+) steps", row.workload)
    heat, aliev = re.search(r"(\d)D (\d+)-point heat", row.workload), "Aliev-Panfilov" in row.workload
    if steps is None or not (heat or aliev):
        return None
    dims = _dims(row.shape)
    if dims is None:
        return LeftOut(reason="a mesh whose size is not told as 10000x10000 or 500^3")
    if heat and (len(dims) != int(heat[1]) or int(heat[2]) != 2 * len(dims) + 1):
        return LeftOut(reason="a stencil that is not made of a point and its neighbours along each dimension")
    run = _meshed(dims, "aliev-panfilov" if aliev else "heat", dtype_of(row), row.n_ipus, machine_of(row))
    return Answer(predicted=rate(row, steps[0], run.seconds * steps[0]), prediction=run)


def _dims(shape: str) -> tuple[int, ...] | None:
    if cube := numbers(r"(\d+)\^(\d)", shape):
        return (cube[0],) * cube[1]
    found = re.search(r"\d+(?:x\d+)+", shape)
    return tuple(map(int, found[0].split("x"))) if found else None


@functools.cache
def _meshed(dims: tuple[int, ...], equation: str, dtype: type, num_ipus: int, machine: str) -> Prediction:
    """One step."""
    rows = -(-dims[0] // num_ipus)
    compute = {"heat": heat, "aliev-panfilov": _aliev_panfilov}[equation]

    def step(fields: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], tuple[()]]:
        return jax.shard_map(one_of_many, in_specs=(specs,), out_specs=specs)(fields) if num_ipus > 1 else one_of_many(fields), ()

    def one_of_many(fields: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        point, *neighbours = shifted(fields[0], num_ipus)
        return compute(functools.reduce(jnp.add, neighbours), point, *fields[1:])

    fields = (jax.ShapeDtypeStruct((rows * num_ipus, *dims[1:]), dtype),) * (2 if equation == "aliev-panfilov" else 1)
    specs = (jax.P("ipus"),) * len(fields)
    return predict(step, fields, machine=machine, num_ipus=num_ipus, sharding=jax.P("ipus"))


def shifted(x: jax.Array, num_ipus: int) -> list[jax.Array]:
    """Each point, and its two neighbours along each dimension; IPUs have some rows each, and swap those at their edges."""
    edges = [(0, 0) if num_ipus > 1 and axis == 0 else (1, 1) for axis in range(x.ndim)]
    padded = jax.lax.optimization_barrier(jnp.pad(_with_edges(x, num_ipus), edges))  # else XLA reads the points from elsewhere
    places = [[1] * x.ndim, *([1] * axis + [start] + [1] * (x.ndim - axis - 1) for axis in range(x.ndim) for start in (0, 2))]
    return [jax.lax.slice(padded, place, [first + size for first, size in zip(place, x.shape, strict=True)]) for place in places]


def _with_edges(x: jax.Array, num_ipus: int) -> jax.Array:
    if num_ipus == 1:
        return x
    above = jax.lax.ppermute(x[-1:], "ipus", [(ipu, ipu + 1) for ipu in range(num_ipus - 1)])
    below = jax.lax.ppermute(x[:1], "ipus", [(ipu + 1, ipu) for ipu in range(num_ipus - 1)])
    return jax.lax.optimization_barrier(jnp.concatenate([above, x, below]))  # else XLA joins them anew for each slice


def heat(around: jax.Array, x: jax.Array) -> tuple[jax.Array, ...]:
    alpha = 0.1
    return ((1 - 2 * x.ndim * alpha) * x + alpha * around,)


def _aliev_panfilov(around: jax.Array, e: jax.Array, r: jax.Array) -> tuple[jax.Array, ...]:
    """Voltage and recovery variable, as AlievPanfilovModel/codelets.cpp of SciCoLab/WaveEquation-IPU has them; constants of that size."""
    delta, epsilon, my1, my2, k, a, b, dt = 5e-5, 0.01, 0.07, 0.3, 8.0, 0.1, 0.1, 1e-3
    new = e + dt * (delta * (around - 4 * e) - k * e * (e - a) * (e - 1) - e * r)
    return new, r + dt * (-epsilon - my1 * r / (my2 + e)) * (r + k * e * (e - b - 1))
