"""Sort and top-k by bitonic networks (poplibs@7eac0f26 lib/popops/Sort.cpp takes that path).

A row of n keys lies on k tiles, a power of two, in chunks of ceil(n / k); `tiles // k` rows go at a time. A network of
2^L keys has L stages; stage i has i steps of compare-and-swap, of which those between tiles exchange a chunk each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilestep.cost.attributes import ints
from tilestep.cost.dtypes import dtype_assumptions
from tilestep.cost.elementwise import memory_bundles, worker_cycles
from tilestep.cost.rates import BUNDLES, rate
from tilestep.cost.step import StepCost, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work
from tilestep.units import ceil_div

FAMILY = "sort"


def sort(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `sort` of one or more arrays together, by its comparison's operations."""
    first = work.operands[0]
    if first.size == 0:
        return nothing(FAMILY)
    length = first.dims[ints(work.attributes, "dimensions")[0]] if first.dims else 1
    dtypes = tuple(array.dtype for array in work.operands)
    return _network(first.size // length, length, length, dtypes, work.body_opcodes or ("compare",), ipu)


def top_k(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `topk` and the custom call TopK: sorts runs of k keys, then merges pairs of runs and keeps the better half.

    Keys and their positions go together; steps are those of a sort whose stages stop at 2k keys.
    """
    operand, values = work.operands[0], work.results[0]
    if operand.size == 0 or values.size == 0:
        return nothing(FAMILY)
    length, kept = operand.dims[-1], values.dims[-1]
    return _network(operand.size // length, length, min(length, 2 * kept), (operand.dtype, "s32"), ("compare",), ipu)


@lru_cache(maxsize=1024)
def _network(rows: int, length: int, deepest: int, dtypes: tuple[str, ...], comparison: tuple[str, ...], ipu: IpuSpec) -> StepCost:
    """The cheapest number of tiles per row; no stage has more steps than a network of `deepest` keys needs."""
    found: list[StepCost] = []
    tiles_log = 0
    while tiles_log == 0 or (1 << tiles_log <= ipu.num_tiles and 1 << tiles_log < 2 * length):
        found.append(_network_on(rows, length, deepest, dtypes, comparison, ipu, tiles_log=tiles_log))
        tiles_log += 1
    return min(found, key=lambda cost: cost.cycles)


def _network_on(
    rows: int, length: int, deepest: int, dtypes: tuple[str, ...], comparison: tuple[str, ...], ipu: IpuSpec, *, tiles_log: int
) -> StepCost:
    chunk = ceil_div(length, 1 << tiles_log)
    own_rows = ceil_div(rows, ipu.num_tiles >> tiles_log)
    limit = (deepest - 1).bit_length()
    chunk_log = (chunk - 1).bit_length()
    local = sum(min(stage, limit) for stage in range(1, chunk_log + 1))
    between = 0
    for stage in range(chunk_log + 1, chunk_log + tiles_log + 1):
        steps = min(stage, limit)
        across = min(steps, max(1, stage - chunk_log))
        between += across
        local += steps - across
    elements = own_rows * chunk
    chunk_bytes = sum(ceil_div(elements * DTYPE_BITS[dtype], 8) for dtype in dtypes)
    step = worker_cycles(_swap_bundles(ceil_div(elements, ipu.tile.worker_contexts), dtypes, comparison, ipu), ipu)
    arrays = rows * length
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=(local + between) * step,
        exchange_bytes=between * chunk_bytes,
        supersteps=1 + between,
        syncs=between,
        temporary_tile_bytes=chunk_bytes if between else 0,
        flops=arrays * (local + between) // 2 if DTYPE_BITS[dtypes[0]] and dtypes[0][0] in "fb" else 0,
        assumptions=("sort and top-k run as bitonic networks", *dtype_assumptions(*dtypes)),
    )


def _swap_bundles(elements: int, dtypes: Sequence[str], comparison: Sequence[str], ipu: IpuSpec) -> int:
    """Bundles of one worker for one step on `elements`: compare the keys, select and move all arrays."""
    rates = [rate(opcode, dtypes[0]) for opcode in comparison if opcode in BUNDLES]
    rates += [rate("select", dtype) for dtype in dtypes]
    arrays = [ArrayShape(dtype) for dtype in dtypes]
    return sum(each.bundles * ceil_div(elements, each.elements) for each in rates) + memory_bundles(elements, arrays, arrays, ipu)
