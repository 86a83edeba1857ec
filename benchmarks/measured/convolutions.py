"""Convolutions by themselves, forward and their gradients: one layer again and again."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp

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
from benchmarks.measured.predict import Prediction, predict
from benchmarks.measured.rows import Row
from tilestep.options import PlanOptions


def convolution(row: Row) -> Answer | LeftOut | None:
    """A convolution of an image by itself, again and again, whose result is the next one's image: time of all of them.

    A gradient by the image feeds the next one likewise; one by the kernel is added to the kernel.
    """
    kernel = numbers(r"\b(\d+)x(\d+) conv", row.workload)
    channels = numbers(r"(\d+) in to (\d+) out channels", row.workload)
    image = numbers(r"(\d+)x(\d+)", row.shape)
    if kernel is None or channels is None or image is None:
        return None
    (groups,), (width, height) = numbers(r"in (\d+) groups", row.workload) or (1,), image
    times = (numbers(r"(\d+) times", row.workload) or (loop_of(row),))[0]
    problem = _Convolved(height, width, *kernel, *channels, groups, dtype_of(row), _direction(row.workload), row.n_ipus)
    if problem.direction != "by the kernel" and channels[0] != channels[1]:
        return LeftOut(reason="a convolution whose result has not the channels of its image, so it can't be the next one's")
    run = _convolved(problem, times, machine_of(row), options_of(row.conditions))
    return Answer(predicted=rate(row, times, run.seconds), prediction=run, verdicts=measured_verdicts(row, run))


@dataclass(frozen=True)
class _Convolved:
    height: int
    width: int
    kernel_height: int
    kernel_width: int
    in_channels: int
    out_channels: int
    groups: int
    dtype: type
    direction: str
    num_ipus: int


def _direction(workload: str) -> str:
    """'forward', 'by the image' or 'by the kernel', of words such as 'weight gradient' or 'backward data'."""
    words = workload.casefold()
    if not re.search(r"grad|backward|update", words):
        return "forward"
    return "by the kernel" if re.search(r"weight|kernel|filter", words) else "by the image"


@functools.cache
def _convolved(of: _Convolved, times: int, machine: str, options: PlanOptions) -> Prediction:
    """So many in a loop, which takes each result back to where the image lies; IPUs have some rows each, and swap those at their edges."""
    rows = -(-of.height // of.num_ipus)
    above, below = (of.kernel_height - 1) // 2, of.kernel_height // 2
    left, right = (of.kernel_width - 1) // 2, of.kernel_width // 2

    def convolve(image: jax.Array, kernel: jax.Array) -> jax.Array:
        edges = (above, below)
        if of.num_ipus > 1:
            from_above = jax.lax.ppermute(image[:, -above:], "ipus", [(ipu, ipu + 1) for ipu in range(of.num_ipus - 1)])
            from_below = jax.lax.ppermute(image[:, :below], "ipus", [(ipu + 1, ipu) for ipu in range(of.num_ipus - 1)])
            image = jnp.concatenate([from_above, image, from_below], axis=1)
            edges = (0, 0)
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            image, kernel, (1, 1), (edges, (left, right)), dimension_numbers=layout, feature_group_count=of.groups
        )

    def one(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        image, kernel = state
        if of.direction == "forward":
            return convolve(image, kernel), kernel
        result, pull = jax.vjp(convolve, image, kernel)
        of_image, of_kernel = pull(result if of.in_channels != of.out_channels else image)
        return (of_image, kernel) if of.direction == "by the image" else (image, kernel + of_kernel)

    def loop(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jax.lax.fori_loop(0, times, lambda _, carried: one(carried), state)

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[tuple[jax.Array, jax.Array], tuple[()]]:
        if of.num_ipus == 1:
            return loop(state), ()
        specs = (jax.P(None, "ipus"), jax.P())
        return jax.shard_map(loop, in_specs=(specs,), out_specs=specs)(state), ()

    image = jax.ShapeDtypeStruct((1, rows * of.num_ipus, of.width, of.in_channels), of.dtype)
    kernel = jax.ShapeDtypeStruct((of.kernel_height, of.kernel_width, of.in_channels // of.groups, of.out_channels), of.dtype)
    return predict(step, (image, kernel), machine=machine, options=options, num_ipus=of.num_ipus)
