"""Reductions of whole dimensions, and running reductions.

Both share the elements of one result among `k` tiles, and take the cheapest `k`: all results are cut into `tiles // k` slices, each
on `k` tiles. The operand is assumed to have that layout.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tilestep.cost.attributes import ints
from tilestep.cost.elementwise.expression import SUPERVISOR_CYCLES, WORKER_BUNDLES
from tilestep.cost.reductions.reducer import Applied, applied
from tilestep.cost.splits import Ints, ceil_divide, integers
from tilestep.cost.step import StepCost, Supersteps, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

FAMILY = "reduce"
SQUARES = "tilestep_squares"  # attribute of a reduction that adds up the squares of what it reads
# poplibs@7eac0f26 lib/popops/reduction: 22 bundles and more per result.
RESULT_BUNDLES = 22
_MOST_STAGES = 3


def reduce(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `reduce`: see `reduction`.

    Squares are added up as fast as the elements themselves, by instructions of their own (`f16v8sqacc` and `f32v4sqacc`:
    poplibs@7eac0f26 lib/popops/codelets/asm/ContinuousReductionAcc.S; its CycleEstimationFunctions.cpp counts ADD and SQUARE_ADD alike).
    """
    operand, results = work.operands[0], work.results[0].size
    if operand.size == 0 or results == 0:
        return nothing(FAMILY)
    dtypes = tuple(array.dtype for array in work.operands[: len(work.results)])
    step = reduction(results=results, depth=ceil_div(operand.size, results), dtypes=dtypes, function=work.body_opcodes, ipu=ipu)
    return replace(step, flops=step.flops + operand.size) if SQUARES in work.attributes else step


def reduction(*, results: int, depth: int, dtypes: Sequence[str], function: Sequence[str], ipu: IpuSpec) -> StepCost:
    """Reduces `depth` elements to each of `results`, `dtypes` arrays at a time.

    A local superstep on ceil(results / slices) x ceil(depth / k) elements a tile; if k > 1, one to three more exchange
    and reduce the k partial results, each with a fan-in that is the 1st to 3rd root of k
    (stages as in poplibs@7eac0f26 lib/poplin/ConvReducePlan.cpp).
    """
    return _reduction(results, depth, tuple(dtypes), tuple(function), ipu)


@lru_cache(maxsize=4096)
def _reduction(results: int, depth: int, dtypes: tuple[str, ...], function: tuple[str, ...], ipu: IpuSpec) -> StepCost:
    apply = applied(function, dtypes)
    bits = sum(DTYPE_BITS[dtype] for dtype in dtypes)
    k = np.arange(1, min(ipu.num_tiles, depth) + 1)
    parts = k.astype(integers(results * depth))
    own = ceil_divide(results, np.minimum(results, ipu.num_tiles // parts))  # results of a slice, in part on each of its k tiles
    local = _local_cycles(own, ceil_divide(depth, parts), apply, ipu)
    found: list[StepCost] = []
    for stages in range(1, _MOST_STAGES + 1):
        fan_in = np.where(k > 1, np.ceil(np.round(k ** (1 / stages), 9)).astype(np.int64), 1)
        steps = np.where(k > 1, stages, 0)
        kept = ceil_divide(own, fan_in)  # results that one tile finishes
        received = steps * ceil_divide(kept * fan_in * bits, 8)
        compute = local + steps * _local_cycles(kept, fan_in, apply, ipu)
        exchange = ceil_divide(received, ipu.tile.exchange_bytes_per_cycle)
        total = compute + exchange + steps * (ipu.sync_cycles + ipu.superstep_overhead_cycles)
        i = int(np.argmin(total))
        cost = step_cost(
            ipu,
            family=FAMILY,
            compute_cycles=int(compute[i]),
            exchange_bytes=int(received[i]),
            supersteps=Supersteps(count=1 + int(steps[i]), syncs=int(steps[i])),
            temporary_tile_bytes=(ceil_div(int(own[i]) * bits, 8) + int(received[i]) // int(steps[i])) if steps[i] else 0,
            flops=results * (depth - 1) * apply.flops,
            assumptions=apply.assumptions,
        )
        found.append(cost)
    return min(found, key=lambda cost: cost.cycles)


def scan(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `scan`, cumulative operations: each tile scans its part; the k parts' totals are scanned; and applied.

    One superstep if a row is on one tile. Else three, of which two exchange k totals of each row of the slice.
    """
    result = max(work.results, key=lambda array: array.size)
    if result.size == 0:
        return nothing("scan")
    dimensions = ints(work.attributes, "dimensions") or (0,)
    length = result.dims[dimensions[0]] if result.dims else 1
    return _scan(result.size // length, length, result.dtype, work.body_opcodes, ipu)


@lru_cache(maxsize=1024)
def _scan(rows: int, length: int, dtype: str, function: tuple[str, ...], ipu: IpuSpec) -> StepCost:
    apply = applied(function, (dtype,))
    k = np.arange(1, min(ipu.num_tiles, length) + 1).astype(integers(rows * length))
    own = ceil_divide(rows, np.minimum(rows, ipu.num_tiles // k))
    one_pass = _local_cycles(own, ceil_divide(length, k), apply, ipu)
    parted = k > 1
    compute = one_pass + np.where(parted, one_pass + _local_cycles(own, k, apply, ipu), 0)
    received = np.where(parted, 2 * ceil_divide(own * k * DTYPE_BITS[dtype], 8), 0)
    sync = np.where(parted, 2, 0) * (ipu.sync_cycles + ipu.superstep_overhead_cycles)
    i = int(np.argmin(compute + ceil_divide(received, ipu.tile.exchange_bytes_per_cycle) + sync))
    return step_cost(
        ipu,
        family="scan",
        compute_cycles=int(compute[i]),
        exchange_bytes=int(received[i]),
        supersteps=Supersteps(count=3, syncs=2) if k[i] > 1 else Supersteps(syncs=0),
        temporary_tile_bytes=int(received[i]),
        flops=rows * max(0, length - 1) * apply.flops,
        assumptions=apply.assumptions,
    )


def _local_cycles(results: Ints, depth: Ints, apply: Applied, ipu: IpuSpec) -> Ints:
    """[candidates] cycles of applying a function to `depth` elements for each of `results` on one tile."""
    workers = ipu.tile.worker_contexts
    vectors = ceil_divide(ceil_divide(results * depth, apply.elements), workers)
    finished = ceil_divide(ceil_divide(results, apply.elements), workers)
    return SUPERVISOR_CYCLES + workers * (WORKER_BUNDLES + RESULT_BUNDLES * finished + apply.bundles * vectors)
