"""Adding up the partial results that several tiles hold of one matmul or convolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilestep.cost.splits import Ints, ceil_divide
from tilestep.machine.spec import IpuSpec


@dataclass(frozen=True, kw_only=True)
class PartialSums:
    """[candidates] what the reduction takes; 0 where nothing is to be added up."""

    compute_cycles: Ints
    received_bytes: Ints  # by one tile, over all stages
    largest_bytes: Ints  # of one stage
    stages: Ints  # supersteps, each with one exchange


def reduce_partials(elements: Ints, depth: Ints, partial_bytes: int, ipu: IpuSpec) -> PartialSums:
    """Sums `depth` tiles' partial results of `elements` each, so that every tile ends with its part of the sums.

    One stage below 16 tiles, two below 125, else three, with a fan-in that is the root of the depth: poplibs@7eac0f26
    lib/poplin/ConvReducePlan.cpp. Cycles of a stage: 3 bundles per vector pair and partial, 8 per pair, 32 a worker
    (estimateConvReduceCycles in PerformanceEstimation.hpp there).
    """
    stages = (depth > 1).astype(np.int64) + (depth >= 16) + (depth >= 125)
    fan_in = np.ceil(np.round(depth ** (1 / np.maximum(stages, 1)), 9)).astype(np.int64)
    width, workers = 16 // partial_bytes, ipu.tile.worker_contexts
    compute, received, largest = np.zeros_like(elements), np.zeros_like(elements), np.zeros_like(elements)
    left = elements
    for stage in range(1, int(stages.max(initial=0)) + 1):
        active = stages >= stage
        left = np.where(active, ceil_divide(left, fan_in), left)
        pairs = ceil_divide(ceil_divide(left, width), workers)
        compute = compute + np.where(active, workers * (32 + (3 * fan_in + 8) * pairs), 0)
        arriving = np.where(active, left * (fan_in - 1) * partial_bytes, 0)
        received = received + arriving
        largest = np.maximum(largest, arriving)
    return PartialSums(compute_cycles=compute, received_bytes=received, largest_bytes=largest, stages=stages)
