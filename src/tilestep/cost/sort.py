"""Sort and top-k by bitonic networks (poplibs@7eac0f26 lib/popops/Sort.cpp takes that path).

A row of n keys is on k tiles, a power of two, in chunks of ceil(n / k). `tiles // k` rows are sorted at a time. A network of 2^L keys
has L stages. Stage i has i steps of compare-and-swap; a step between tiles exchanges a chunk.

Top-k sorts runs of 2^r >= k keys in this way. Each further stage compares pairs of runs, key by key, and drops the lower half. The
rest of each pair is a bitonic sequence, which r steps sort.

The code holds each step by itself (BitonicTopK.cpp, `topKImpl`, has no loop on the device).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from tilestep.cost.attributes import ints
from tilestep.cost.dtypes import dtype_assumptions
from tilestep.cost.elementwise.expression import memory_bundles, worker_cycles
from tilestep.cost.elementwise.rates import BUNDLES, rate
from tilestep.cost.step import StepCost, Supersteps, nothing, step_cost
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
    """HLO `topk` and the custom call TopK: keys and their positions go together."""
    operand, values = work.operands[0], work.results[0]
    if operand.size == 0 or values.size == 0:
        return nothing(FAMILY)
    length, kept = operand.dims[-1], values.dims[-1]
    return _network(operand.size // length, length, kept, (operand.dtype, "s32"), ("compare",), ipu)


@lru_cache(maxsize=1024)
def _network(rows: int, length: int, kept: int, dtypes: tuple[str, ...], comparison: tuple[str, ...], ipu: IpuSpec) -> StepCost:
    """The cheapest number of tiles per row. Args: kept: keys of a row that are wanted, the highest ones in order."""
    found: list[StepCost] = []
    tiles_log = 0
    while tiles_log == 0 or (1 << tiles_log <= ipu.num_tiles and 1 << tiles_log < 2 * length):
        found.append(_network_on(rows, length, kept, dtypes, comparison, ipu, tiles_log=tiles_log))
        tiles_log += 1
    return min(found, key=lambda cost: cost.cycles)


def _network_on(
    rows: int, length: int, kept: int, dtypes: tuple[str, ...], comparison: tuple[str, ...], ipu: IpuSpec, *, tiles_log: int
) -> StepCost:
    chunk = ceil_div(length, 1 << tiles_log)
    own_rows = ceil_div(rows, ipu.num_tiles >> tiles_log)
    compute = sent = between = compared = 0
    for keys, steps, across in _stages(chunk, tiles_log, kept):
        elements = own_rows * keys
        compute += steps * worker_cycles(_swap_bundles(ceil_div(elements, ipu.tile.worker_contexts), dtypes, comparison, ipu), ipu)
        sent += across * sum(ceil_div(elements * DTYPE_BITS[dtype], 8) for dtype in dtypes)
        between += across
        compared += rows * min(length, keys << tiles_log) * steps // 2
    chunk_bytes = sum(ceil_div(own_rows * chunk * DTYPE_BITS[dtype], 8) for dtype in dtypes)
    cost = step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=compute,
        exchange_bytes=sent,
        supersteps=Supersteps(count=1 + between, syncs=between),
        temporary_tile_bytes=chunk_bytes if between else 0,
        flops=compared if DTYPE_BITS[dtypes[0]] and dtypes[0][0] in "fb" else 0,
        assumptions=("sort and top-k run as bitonic networks", *dtype_assumptions(*dtypes)),
    )
    stages = range((length - 1).bit_length())
    return replace(cost, compute_sets=max(1, sum(1 + min(stage, (kept - 1).bit_length()) for stage in stages)))


def _stages(chunk: int, tiles_log: int, kept: int) -> Iterator[tuple[int, int, int]]:
    """(keys on a tile, steps on that many keys, how many of the steps are between tiles), stage by stage."""
    chunk_log = (chunk - 1).bit_length()
    run_log = (kept - 1).bit_length()
    for stage in range(1, chunk_log + tiles_log + 1):
        if stage <= run_log:
            yield chunk, stage, max(0, stage - chunk_log)
            continue
        keys = max(min(chunk, 1 << run_log), ceil_div(chunk, 1 << (stage - run_log - 1)))
        if stage <= chunk_log:
            yield keys, 1, 0
            yield ceil_div(keys, 2), run_log, 0
        else:  # the better halves of two tiles' runs are on both
            yield keys, 1 + run_log, 1 + max(0, run_log - chunk_log)


def _swap_bundles(elements: int, dtypes: Sequence[str], comparison: Sequence[str], ipu: IpuSpec) -> int:
    """Bundles of one worker for one step on `elements`: compare the keys, select and move all arrays."""
    rates = [rate(opcode, dtypes[0]) for opcode in comparison if opcode in BUNDLES]
    rates += [rate("select", dtype) for dtype in dtypes]
    arrays = [ArrayShape(dtype) for dtype in dtypes]
    return sum(each.bundles * ceil_div(elements, each.elements) for each in rates) + memory_bundles(elements, arrays, arrays, ipu)
