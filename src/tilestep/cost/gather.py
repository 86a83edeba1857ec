"""Reads and writes at positions that are data: dynamic slices, gather, scatter (poplibs' multiSlice and multiUpdate).

A table of `rows` slices is cut by rows and by columns over the tiles. The look-ups may be cut too: then each part has a copy of
the table, or a partial table if it updates the table. Nobody knows beforehand which tile a look-up goes to. So the busiest tile
copies or applies all look-ups that it receives, as in poplibs' estimators.
"""

from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from tilestep.cost.attributes import ints
from tilestep.cost.copy import copy_cycles
from tilestep.cost.dtypes import VECTOR_BYTES
from tilestep.cost.elementwise.expression import SUPERVISOR_CYCLES, WORKER_BUNDLES
from tilestep.cost.exchange import share
from tilestep.cost.reductions.reducer import applied
from tilestep.cost.splits import ceil_divide, cuts, integers
from tilestep.cost.step import Held, StepCost, Supersteps, nothing, step_cost, together
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

# poplibs@7eac0f26 lib/popops/popopsCycleEstimators.cpp, MultiSlice: bundles per look-up and per vector copied;
# MultiUpdateAdd: per look-up.
_LOOK_UP = 19
_COPY_VECTOR = 2
_UPDATE = 12
MEMORY_PROPORTION = 0.6  # share of a tile's memory: poplibs' default for temporary data; copies of a table may take half of that
_PESSIMISTIC = "every look-up of a gather or scatter is taken to fall into the rows of the busiest tile"


def dynamic_slice(work: Work, ipu: IpuSpec) -> StepCost:
    """Every tile holds a part of each slice. All tiles receive the start indices and copy their part of the result."""
    return _dynamic(work.results[0].size_bytes, index_bytes=sum(array.size_bytes for array in work.operands[1:]), moved=0, ipu=ipu)


def dynamic_update_slice(work: Work, ipu: IpuSpec) -> StepCost:
    """The tiles that hold the operand receive the start indices and the update, and write it in place."""
    update = work.operands[1].size_bytes
    return _dynamic(update, index_bytes=sum(array.size_bytes for array in work.operands[2:]), moved=update, ipu=ipu)


def _dynamic(slice_bytes: int, *, index_bytes: int, moved: int, ipu: IpuSpec) -> StepCost:
    part = share(slice_bytes, ipu)
    if part == 0:
        return nothing("dynamic-slice")
    received = index_bytes + share(moved, ipu)
    return step_cost(
        ipu,
        family="dynamic-slice",
        compute_cycles=copy_cycles(part, ipu),
        exchange_bytes=received,
        temporary_tile_bytes=received,
    )


def gather(work: Work, ipu: IpuSpec, memory_proportion: float = MEMORY_PROPORTION) -> StepCost:
    """HLO `gather`: two supersteps, one that looks up and one that sends the results on."""
    table, indices, result = work.operands[0], work.operands[1], work.results[0]
    if result.size == 0 or table.size == 0:
        return nothing("gather")
    slice_size = prod(ints(work.attributes, "slice_sizes")) or 1
    return _look_ups(
        rows=ceil_div(table.size, slice_size),
        columns=slice_size,
        look_ups=ceil_div(result.size, slice_size),
        dtype=table.dtype,
        index_bytes=DTYPE_BITS[indices.dtype] // 8 * _index_width(indices.size, ceil_div(result.size, slice_size)),
        function=None,
        ipu=ipu,
        memory_proportion=memory_proportion,
    )


def scatter(work: Work, ipu: IpuSpec, memory_proportion: float = MEMORY_PROPORTION) -> StepCost:
    """HLO `scatter`: one superstep, two if partial tables are added up; one array after the other."""
    arrays = len(work.results)
    table, indices, updates = work.operands[0], work.operands[arrays], work.operands[arrays + 1]
    if updates.size == 0 or table.size == 0:
        return nothing("scatter")
    windows = ints(work.attributes, "update_window_dims")
    slice_size = prod(updates.dims[dimension] for dimension in windows)
    look_ups = ceil_div(updates.size, slice_size)
    one = _look_ups(
        rows=ceil_div(table.size, slice_size),
        columns=slice_size,
        look_ups=look_ups,
        dtype=table.dtype,
        index_bytes=DTYPE_BITS[indices.dtype] // 8 * _index_width(indices.size, look_ups),
        function=work.body_opcodes,
        ipu=ipu,
        memory_proportion=memory_proportion,
    )
    return one if arrays == 1 else together("scatter", (one,) * arrays)


def sparse_dense(work: Work, ipu: IpuSpec) -> StepCost:
    """JAX's product of a CSR matrix and a dense one: each stored element adds a multiple of a row to a row of the result."""
    stored, dense, result = work.operands[0], work.operands[3], work.results[0]
    if stored.size == 0 or result.size == 0 or dense.size == 0:
        return nothing("gather")
    columns = result.dims[-1] if len(result.dims) > 1 else 1
    rows = ceil_div(dense.size, columns)
    read = _look_ups(rows=rows, columns=columns, look_ups=stored.size, dtype=dense.dtype, index_bytes=8, function=None, ipu=ipu)
    rows = ceil_div(result.size, columns)
    function = ("multiply", "add")
    added = _look_ups(rows=rows, columns=columns, look_ups=stored.size, dtype=result.dtype, index_bytes=8, function=function, ipu=ipu)
    return together("gather", (read, added))


@lru_cache(maxsize=4096)
def _look_ups(
    *,
    rows: int,
    columns: int,
    look_ups: int,
    dtype: str,
    index_bytes: int,
    function: tuple[str, ...] | None,
    ipu: IpuSpec,
    memory_proportion: float = MEMORY_PROPORTION,
) -> StepCost:
    """The cheapest cut. `function` holds the operations of an update on an element; None: a read."""
    ladder = [1 << power for power in range(1 if function == () else ipu.num_tiles.bit_length())]
    cut = cuts((rows, columns, look_ups), ipu.num_tiles, tried={2: ladder}, dtype=integers(rows * columns * look_ups))
    look_up_parts = cut.splits[2]
    own_rows, own_columns, scanned = cut.parts
    slice_bytes = ceil_divide(own_columns * DTYPE_BITS[dtype], 8)
    # Parts of the look-ups need copies of the table to read, or partial tables to add up.
    table_bytes = np.where(look_up_parts > 1, own_rows * slice_bytes, 0)
    workers = ipu.tile.worker_contexts
    apply = applied(function or (), (dtype,))
    if function is None:
        per_look_up = _LOOK_UP + _COPY_VECTOR * ceil_divide(slice_bytes, VECTOR_BYTES)
        sent = scanned * (index_bytes + slice_bytes)  # the second: results go where they are wanted
        supersteps = np.full_like(sent, 2)
        summed = np.zeros_like(sent)
    else:
        per_look_up = _UPDATE + (1 + apply.bundles) * ceil_divide(own_columns, apply.elements)
        sent = scanned * (index_bytes + slice_bytes)
        supersteps = np.where(look_up_parts > 1, 2, 1)
        groups = ceil_divide(ceil_divide(own_rows * own_columns, apply.elements), workers)
        summed = np.where(look_up_parts > 1, SUPERVISOR_CYCLES + workers * (WORKER_BUNDLES + apply.bundles * groups), 0)
    sent = sent + table_bytes
    # More look-ups than fit into the memory for temporary data go in passes.
    bound = int(memory_proportion * ipu.tile.sram_bytes)
    supersteps = supersteps * np.maximum(1, ceil_divide(sent, bound))
    compute = SUPERVISOR_CYCLES + workers * (WORKER_BUNDLES + ceil_divide(scanned, workers) * per_look_up) + summed
    steps = supersteps * (ipu.sync_cycles + ipu.superstep_overhead_cycles)
    fits = (look_up_parts == 1) | (table_bytes <= bound // 2)
    # A table that its plan spreads badly could lie otherwise and be copied there first, so what a tile has too much counts as sent:
    # internal.alwaysIncludeBaseRearrangementCost in poplibs' DynamicSlice.cpp.
    uneven = np.maximum(own_rows * slice_bytes - share(rows * columns * DTYPE_BITS[dtype] // 8, ipu) - table_bytes, 0)
    chosen_by = compute + ceil_divide(sent + uneven, ipu.tile.exchange_bytes_per_cycle) + steps
    i = int(np.argmin(np.where(fits, chosen_by, np.inf)))
    # Tiles with the same part of the table share it in pieces as wide as the exchange of two tiles (`createSliceableTensor`).
    block_bytes = ceil_div(int(own_rows[i]) * int(own_columns[i]) * DTYPE_BITS[dtype], 8)
    table = Held(tile_bytes=ceil_div(ceil_div(block_bytes, VECTOR_BYTES), int(look_up_parts[i])) * VECTOR_BYTES)
    cost = step_cost(
        ipu,
        family="gather" if function is None else "scatter",
        compute_cycles=int(compute[i]),
        exchange_bytes=int(sent[i]),
        supersteps=Supersteps(count=int(supersteps[i]), syncs=int(supersteps[i])),
        temporary_tile_bytes=min(int(sent[i]), bound),
        flops=look_ups * columns * apply.flops if function else 0,
        assumptions=(_PESSIMISTIC, *(apply.assumptions if function else ())),
    )
    return replace(cost, held=(table,))


def _index_width(index_elements: int, look_ups: int) -> int:
    """Indices that name one slice."""
    return max(1, ceil_div(index_elements, max(1, look_ups)))
