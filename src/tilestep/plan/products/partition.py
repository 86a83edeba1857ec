"""The parts that all splits of a matmul or convolution share: operands in, products, partial sums, results out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilestep.cost.copy import PADDING_CYCLES, REARRANGE_CYCLES, rearranged_per_byte, split_words_cycles
from tilestep.cost.dtypes import ARITHMETIC, VECTOR_BYTES, product_assumptions
from tilestep.cost.elementwise.expression import SUPERVISOR_CYCLES, WORKER_BUNDLES
from tilestep.cost.exchange import TILES_PER_BUS
from tilestep.cost.products.matrix_unit import takes_float8
from tilestep.cost.products.partials import reduce_partials
from tilestep.cost.splits import Ints, ceil_divide
from tilestep.cost.step import Footprint, Held, StepCost, Supersteps, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.tile_layout import LEAST_TILE_BYTES
from tilestep.program.work import DTYPE_BITS
from tilestep.units import ceil_div

# Candidates that are looked at closely to find a bound for the others, and how many are looked at without one: that takes as long.
PROBES = 48
_WITHOUT_PROBES = 256
# Control code of one more serial pass over a block (outer loop of poplibs' codelets).
_PASS_CYCLES = 50
_LEAST_TILE_WEIGHTS_BYTES = 256  # minBytesPerTile in poplibs' Convolution.cpp


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """[candidates] the fullest tile's block of each candidate: elements of the operands, and bytes of them that it receives."""

    left_elements: Ints
    right_elements: Ints
    left_bytes: Ints
    right_bytes: Ints
    left_shared: NDArray[np.bool_]  # the two tiles of an exchange bus receive the same left operand
    outputs: Ints  # elements, in part or whole
    depth: Ints  # tiles that hold a part of the same outputs
    tiles: Ints
    splits: tuple[Ints, ...]

    def take(self, chosen: Ints) -> Blocks:
        """Some of the candidates."""
        return Blocks(
            left_elements=self.left_elements[chosen],
            right_elements=self.right_elements[chosen],
            left_bytes=self.left_bytes[chosen],
            right_bytes=self.right_bytes[chosen],
            left_shared=self.left_shared[chosen],
            outputs=self.outputs[chosen],
            depth=self.depth[chosen],
            tiles=self.tiles[chosen],
            splits=tuple(split[chosen] for split in self.splits),
        )


@dataclass(frozen=True, kw_only=True)
class Types:
    """Dtypes of a product, and bytes of one element of its partial sums."""

    left: str
    right: str
    result: str
    partial_bytes: int
    padded: bool = False  # the left operand's channels are padded to the unit's
    regrouped: bool = False  # the unit writes groups of channels of another size than it reads
    run_bytes: int = VECTOR_BYTES  # regrouping leaves them together
    float8: bool = False  # the unit takes 8-bit floats as they are
    left_apart: bool = False  # rows of the operand begin inside of words
    right_apart: bool = False


@dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """The cheapest way that was found."""

    cost: StepCost
    method: str  # 'matrix unit', 'vector unit', ...
    tiles: int
    splits: tuple[tuple[str, int], ...]  # parts along each dimension
    serial_passes: int  # over the block, so that the moved bytes fit into memory
    block_elements: tuple[int, int]  # left and right, in a tile's computation


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """[candidates] Ways to split a product by one method."""

    method: str
    names: tuple[str, ...]  # dimensions that are split
    blocks: Blocks
    compute_at_least: Ints  # a lower bound of the cycles of products
    compute: Callable[[Ints], Ints]  # indices of candidates -> cycles of their products
    allowed: NDArray[np.bool_] | None = None  # None: all


def cheapest(
    candidates: Candidates, types: Types, *, family: str, flops: int, ipu: IpuSpec, options: PlanOptions, at_most: int | None = None
) -> PartitionPlan | None:
    """Evaluates the candidates that can be the cheapest; of equally cheap ones the one on the fewest tiles wins.

    Supersteps: one that multiplies, behind the exchange and sync that bring operands if any move, and one per stage of
    partial sums (exchange, sync each). What moves and the partial results have to fit into the proportion of a tile's memory
    that the options allow; if they do not, the tile goes over its block in serial passes, and receives the right
    operand again in each pass over rows.

    Args:
        candidates: None is returned where none is allowed.
        at_most: None is returned where all candidates take more cycles than that for sure.
    """
    blocks, allowed = candidates.blocks, candidates.allowed
    at_least = candidates.compute_at_least + others_at_least(blocks, types, ipu)
    wanted = np.ones(len(at_least), dtype=np.bool_) if allowed is None else allowed
    chosen = np.flatnonzero(wanted if at_most is None else wanted & (at_least <= at_most))
    if not len(chosen):
        return None
    if len(chosen) > _WITHOUT_PROBES:
        probes = chosen[np.argpartition(at_least[chosen], PROBES)[:PROBES]]
        bound = _evaluate(blocks.take(probes), candidates.compute(probes), types, ipu, options).total.min()
        chosen = chosen[at_least[chosen] <= bound]
    block = blocks.take(chosen)
    costs = _evaluate(block, candidates.compute(chosen), types, ipu, options)
    best = int(np.lexsort((block.tiles, costs.total))[0])
    cost = step_cost(
        ipu,
        family=family,
        compute_cycles=int(costs.compute_cycles[best]),
        exchange_bytes=int(costs.exchange_bytes[best]),
        supersteps=Supersteps(count=int(costs.supersteps[best]), syncs=int(costs.syncs[best]), shared_bytes=int(costs.shared_bytes[best])),
        temporary_tile_bytes=int(costs.temporary_bytes[best]),
        flops=flops,
        assumptions=product_assumptions(
            types.left, types.right, types.result, float8=types.float8, half_sums=takes_float8(ipu, types.left, types.right)
        ),
    )
    stages = int(costs.stages[best])
    footprint = Footprint(
        received_bytes=(int(block.left_bytes[best]), int(block.right_bytes[best])),
        fan_in=stages * math.ceil(round(int(block.depth[best]) ** (1 / stages), 9)) if stages else 0,
        sums_bytes=int(costs.sums_bytes[best]),
        stages=stages,
    )
    return PartitionPlan(
        cost=replace(cost, result_tile_elements=int(costs.results[best]), footprint=footprint),
        method=candidates.method,
        tiles=int(block.tiles[best]),
        splits=tuple((name, int(split[best])) for name, split in zip(candidates.names, block.splits, strict=True)),
        serial_passes=int(costs.passes[best]),
        block_elements=(int(block.left_elements[best]), int(block.right_elements[best])),
    )


def held(elements: int, dtype: str, *, grain: int, sharers: int, weights_of: int = 0) -> Held:
    """Where an operand lies of which so many tiles need the same block.

    They share the block in whole grains, in no more parts than have a least size. Weights fill a plan's tiles from the last one on, inputs
    from the first one on. Where every plan begins at tile 0, as they do by default, those of all products meet on the same tiles.
    Source: poplibs@7eac0f26 lib/poplin/Convolution.cpp (mapActivationsOrWeights, calculateActivationsOrWeightsUsage), ConvPlan.cpp
    (getStartTile), lib/poputil/TensorUseTracker.cpp (resolve), Util.cpp (splitRegionsAux).

    Args:
        elements: of the block.
        dtype: of the operand.
        grain: elements that stay together.
        sharers: tiles that need the block.
        weights_of: tiles of the plan of which it is the weights; 0: it is the input.
    """
    grain_bytes = ceil_div(grain * DTYPE_BITS[dtype], 8)
    grains = ceil_div(elements, grain)
    least = ceil_div(_LEAST_TILE_WEIGHTS_BYTES if weights_of else LEAST_TILE_BYTES, grain_bytes)
    parts = min(sharers, max(1, grains // least))
    return Held(tile_bytes=ceil_div(grains, parts) * grain_bytes, end=weights_of)


def footprint_of(cost: StepCost) -> Footprint:
    """Of a step that has a plan."""
    assert cost.footprint is not None  # every plan has one
    return cost.footprint


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """[candidates] Partial results are added up in `stages`, for which a tile receives `sums_bytes`."""

    compute_cycles: Ints
    exchange_bytes: Ints
    shared_bytes: Ints
    supersteps: Ints
    syncs: Ints
    temporary_bytes: Ints
    results: Ints  # elements on the fullest tile
    passes: Ints
    sums_bytes: Ints
    stages: Ints
    total: Ints


def _room(block: Blocks, ipu: IpuSpec) -> Ints:
    """Tiles that may take a share of the sums of one block of outputs: those that hold a part of them, and idle ones."""
    return ipu.num_tiles // (block.tiles // block.depth)


def others_at_least(block: Blocks, types: Types, ipu: IpuSpec) -> Ints:
    """A lower bound of the cycles of all but the products: partial results are exchanged and added, if by all tiles that there are."""
    shared = np.where(block.left_shared, block.left_bytes // TILES_PER_BUS, block.left_bytes)
    exchange = (shared + block.right_bytes) // ipu.tile.exchange_bytes_per_cycle
    partial_bytes = block.outputs * types.partial_bytes
    stage = ipu.superstep_overhead_cycles + ipu.sync_cycles
    room = _room(block, ipu)
    moved = partial_bytes * (block.depth - 1) // (room * ipu.tile.exchange_bytes_per_cycle)
    return exchange + np.where(block.depth > 1, stage + moved + 3 * partial_bytes * block.depth // (16 * room), 0)


def _evaluate(block: Blocks, products: Ints, types: Types, ipu: IpuSpec, options: PlanOptions) -> _Costs:
    partial = reduce_partials(block.outputs, block.depth, _room(block, ipu), types.partial_bytes, ipu)
    left = block.left_bytes + _converted_bytes(block.left_elements, types.left, types)
    right = block.right_bytes + _converted_bytes(block.right_elements, types.right, types)
    narrower = DTYPE_BITS[types.result] < 8 * types.partial_bytes
    # Wider than halves, the only sums of 8-bit floats.
    wider = takes_float8(ipu, types.left, types.right) and DTYPE_BITS[types.result] > 8 * types.partial_bytes
    sums = np.where((block.depth > 1) | narrower | wider, block.outputs * types.partial_bytes, 0)
    arriving = sums + partial.largest_stage_bytes
    # Serial passes over the block's rows bound the left operand's bytes, those over its columns the rest: half of the bound each.
    bound = max(2, int(options.available_memory_proportion * ipu.tile.sram_bytes))
    needed = np.maximum(left + right + sums, arriving)  # operands are gone when partial results arrive
    rest = np.maximum(right + sums, arriving)
    fits = needed <= bound
    row_passes = np.where(fits, 1, np.maximum(1, ceil_divide(left, bound // 2)))
    column_passes = np.where(fits, 1, np.maximum(1, ceil_divide(rest, bound // 2)))
    passes = row_passes * column_passes
    temporary = np.where(fits, needed, ceil_divide(left, row_passes) + ceil_divide(rest, column_passes))
    compute = products + partial.compute_cycles + (passes - 1) * _PASS_CYCLES
    for elements, dtype in ((block.left_elements, types.left), (block.right_elements * row_passes, types.right)):
        if _is_converted(dtype, types):
            compute = compute + ceil_divide(elements, ARITHMETIC[dtype].per_vector)
    if narrower or wider:  # results leave in their own dtype: a cast of each tile's part of the sums
        pairs = ceil_divide(ceil_divide(partial.results, 2 if wider else 4), ipu.tile.worker_contexts)
        compute = compute + SUPERVISOR_CYCLES + ipu.tile.worker_contexts * (WORKER_BUNDLES + 3 * pairs)
    if types.padded:
        compute = compute + PADDING_CYCLES.numerator * block.left_elements // PADDING_CYCLES.denominator
    if types.regrouped:
        # Halves that come from 8-bit floats are cast to them before the next product regroups its operand (poplin/Convolution.cpp).
        results = partial.results * (DTYPE_BITS[types.left] if types.float8 else DTYPE_BITS[types.result]) // 8
        compute = compute + np.ceil(REARRANGE_CYCLES + results * rearranged_per_byte(types.run_bytes, ipu)).astype(results.dtype)
    if types.left_apart:
        compute = compute + split_words_cycles(block.left_bytes, ipu)
    if types.right_apart:
        compute = compute + split_words_cycles(block.right_bytes * row_passes, ipu)
    received = block.left_bytes + block.right_bytes * row_passes
    shared = np.where(block.left_shared, block.left_bytes, 0)
    moved = (received > 0).astype(np.int64)
    exchange = received + partial.received_bytes
    supersteps, syncs = passes * (1 + partial.stages), passes * (moved + partial.stages)
    steps = supersteps * ipu.superstep_overhead_cycles + syncs * ipu.sync_cycles
    return _Costs(
        compute_cycles=compute,
        exchange_bytes=exchange,
        shared_bytes=shared,
        supersteps=supersteps,
        syncs=syncs,
        temporary_bytes=temporary,
        results=partial.results,
        passes=passes,
        sums_bytes=partial.received_bytes,
        stages=partial.stages,
        total=compute
        + ceil_divide((exchange - shared) * TILES_PER_BUS + shared, ipu.tile.exchange_bytes_per_cycle * TILES_PER_BUS)
        + steps,
    )


def _is_converted(dtype: str, types: Types) -> bool:
    """Whether a tile converts its block of an operand before it multiplies."""
    return ARITHMETIC[dtype].converts and not types.float8


def _converted_bytes(elements: Ints, dtype: str, types: Types) -> Ints | int:
    """Bytes of a block's copy in the dtype of the computation, if that is another one."""
    if not _is_converted(dtype, types):
        return 0
    return elements * (2 if ARITHMETIC[dtype].unit == "half" else 4)
