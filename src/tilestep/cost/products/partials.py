"""Sums of partial results: several tiles each hold a part of one matmul or convolution."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilestep.cost.splits import Ints, ceil_divide
from tilestep.machine.spec import IpuSpec

# Numbers of partial results for which one, two and three stages are tried. From 16 on at least two are needed, from 125 on three. Below
# 8 a second stage is never cheaper, below 64 a third.
_STAGES = ((2, 16), (8, 125), (64, 1 << 40))
_DEEPEST_FAN_IN = 12  # tried in each of three stages, enough for 1,728 tiles


@dataclass(frozen=True, kw_only=True)
class PartialSums:
    """[candidates] the cost of the reduction; 0 where there is nothing to add up."""

    compute_cycles: Ints
    received_bytes: Ints  # by one tile, over all stages
    largest_stage_bytes: Ints
    stages: Ints  # supersteps, each with one exchange
    results: Ints  # elements that a tile has of the sums in the end


def reduce_partials(elements: Ints, depth: Ints, room: Ints, partial_bytes: int, ipu: IpuSpec) -> PartialSums:
    """Sums `depth` tiles' partial results of `elements` each, so that tiles end with equal shares of the sums.

    At least one stage below 16 partial results, two below 125, else three, with a fan-in that is the root of the depth:
    poplibs@7eac0f26 lib/poplin/ConvReducePlan.cpp. Cycles of a stage: 3 bundles per vector pair and partial, 8 per pair, 32 a worker
    (estimateConvReduceCycles in PerformanceEstimation.hpp there). The cheapest is taken of: sums on the tiles that hold the partial
    results, or on idle ones too; more stages than needed; of three stages also a larger fan-in. So a sum over fewer tiles never takes
    longer than one over more, which it could be padded to.

    Args: room: tiles that may take a share of the sums, at least `depth`.
    """
    none = np.zeros_like(elements)
    best = PartialSums(compute_cycles=none, received_bytes=none, largest_stage_bytes=none, stages=none, results=elements)
    found = depth < 2  # nothing to add up
    cycles = np.zeros_like(elements)
    chosen = np.flatnonzero(depth > 1)
    if not len(chosen):
        return best
    best = [np.array(values) for values in vars(best).values()]
    for picked, sums in _ways(elements, depth, room, partial_bytes, ipu):
        total = sums.compute_cycles + sums.stages * (ipu.superstep_overhead_cycles + ipu.sync_cycles)
        total = total + ceil_divide(sums.received_bytes, ipu.tile.exchange_bytes_per_cycle)
        better = ~found[picked] | (total < cycles[picked])
        cheaper = picked[better]
        found[cheaper], cycles[cheaper] = True, total[better]
        for values, new in zip(best, vars(sums).values(), strict=True):
            values[cheaper] = new[better]
    return PartialSums(**dict(zip(PartialSums.__dataclass_fields__, best, strict=True)))


def _ways(elements: Ints, depth: Ints, room: Ints, partial_bytes: int, ipu: IpuSpec) -> Iterator[tuple[Ints, PartialSums]]:
    """(candidates, one way to add up their partial results)."""
    for stages, (least, below) in enumerate(_STAGES, start=1):
        picked = np.flatnonzero((depth >= least) & (depth < below))
        if not len(picked):
            continue
        e, d, r = elements[picked], depth[picked], room[picked]
        root = np.ceil(np.round(d ** (1 / stages), 9)).astype(np.int64)
        if stages == 1:
            yield picked, _sums(e, d, d, root, stages, partial_bytes, ipu)
        fans = [root] if stages < 3 else [np.maximum(root, fan) for fan in range(int(root.min()), _DEEPEST_FAN_IN + 1)]
        for fan in fans:
            yield picked, _sums(e, d, r, fan, stages, partial_bytes, ipu)


def _sums(elements: Ints, depth: Ints, tiles: Ints, fan_in: Ints, stages: int, partial_bytes: int, ipu: IpuSpec) -> PartialSums:
    """One way to add up: in each stage but the last so many partial results at a time, on so many tiles."""
    per_turn = 16 // partial_bytes * ipu.tile.worker_contexts  # elements that all workers add up at a time
    left = depth
    pairs = received = own = largest = np.zeros_like(elements)
    held = (tiles <= depth) | (stages > 1)  # a tile has one of the partial results itself
    for stage in range(1, stages + 1):
        each = left if stage == stages else fan_in
        left = -(-left // each)  # partial results of each output that are left
        own = -(-elements * left // tiles)
        pairs = pairs + (3 * each + 8) * -(-own // per_turn)
        arriving = own * (each - held)
        received = received + arriving
        largest = np.maximum(largest, arriving)
    return PartialSums(
        compute_cycles=ipu.tile.worker_contexts * (32 * stages + pairs),
        received_bytes=received * partial_bytes,
        largest_stage_bytes=largest * partial_bytes,
        stages=np.full_like(elements, stages),
        results=own,
    )
