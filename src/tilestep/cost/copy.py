"""Moves without arithmetic: between tiles, and into another order on a tile."""

from fractions import Fraction

import numpy as np

from tilestep.cost.attributes import ints
from tilestep.cost.exchange import broadcast_bytes, share
from tilestep.cost.splits import Ints
from tilestep.cost.step import StepCost, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work
from tilestep.units import ceil_div

FAMILY = "copy"
REGROUPED = "tilestep_regrouped"  # attribute of a copy into another layout that only convolutions read
# osmarks/ipu-stack@ce7c7e9 crates/ipu-codegen/src/cost.rs: one call of a copy on six workers, measured on a C600.
CALL_CYCLES = 288
# poplibs@7eac0f26 lib/poplin/ConvModel.cpp (getCycles): regression over 10,000 layouts, for copies on a Mk2 tile.
REARRANGE_CYCLES = 587
# Per element of an operand whose channels are padded to the size of the matrix unit's groups: poplibs@7eac0f26
# lib/poplin/ConvModel.cpp.
PADDING_CYCLES = Fraction(5, 3)
# (bytes that stay together, cycles per byte)
_PER_BYTE = ((8, 0.4404), (4, 3.125), (1, 5.1484))
_MK2_COPY_BYTES_PER_CYCLE = 8
# poplibs@7eac0f26 lib/popsparse/PerformanceEstimation.hpp (getTransposeCycleEstimate): of an element of so many bytes, (bytes of a block of
# 16 x 16 halves or 8 x 8 floats, a worker's bundles to transpose it).
_TRANSPOSED_BLOCKS = {2: (512, 18 + 4 * (12 + 4 * 2)), 4: (256, 18 + 4 * (12 + 3 * 2))}
_TRANSPOSE_SUPERVISOR_CYCLES, _TRANSPOSE_WORKER_BUNDLES = 7, 29
_EXCHANGE_WORD_BYTES = 4  # osmarks/ipu-stack docs/EXCHANGE_INSTRUCTION_REFERENCE.md


def copy_cycles(tile_bytes: int, ipu: IpuSpec) -> int:
    """Cycles to copy bytes on a tile in their order."""
    return CALL_CYCLES + ceil_div(tile_bytes, ipu.tile.copy_bytes_per_cycle) if tile_bytes else 0


def rearrange_cycles(tile_bytes: int, run_bytes: int, ipu: IpuSpec) -> float:
    """Cycles to copy bytes on a tile into another order, in runs of at least `run_bytes`.

    On a tile with another copy width the rate scales with it, the fixed part stays.
    """
    if tile_bytes == 0:
        return 0
    return REARRANGE_CYCLES + rearranged_per_byte(run_bytes, ipu) * tile_bytes


def rearranged_per_byte(run_bytes: int, ipu: IpuSpec) -> float:
    """Cycles per byte of a rearrangement in runs of at least `run_bytes`, beside the fixed part."""
    per_byte = next(rate for run, rate in _PER_BYTE if run_bytes >= run)
    return per_byte * _MK2_COPY_BYTES_PER_CYCLE / ipu.tile.copy_bytes_per_cycle


def has_split_words(array: ArrayShape) -> bool:
    """Whether rows begin inside of words, because an odd number of halves, or of bytes no multiple of four, is a row in memory."""
    order = _wide_layout(array)
    return len(order) > 1 and array.dims[order[0]] * DTYPE_BITS[array.dtype] % (8 * _EXCHANGE_WORD_BYTES) > 0


def split_words_cycles(tile_bytes: Ints, ipu: IpuSpec) -> Ints:
    """[candidates] cycles to put so many bytes in order that arrive in rows which begin inside of words, by parts of words.

    Source: poplibs@7eac0f26 lib/poplin/ConvModel.cpp (getCycles), as of a rearrangement in runs of two bytes.
    """
    cycles = np.ceil(REARRANGE_CYCLES + tile_bytes * rearranged_per_byte(2, ipu)).astype(tile_bytes.dtype)
    return np.where(tile_bytes > 0, cycles, 0)


def moved(work: Work, ipu: IpuSpec) -> StepCost:
    """Results whose elements keep their order but come from other tiles: slice, concatenate, dynamic-reshape.

    One superstep: every byte of the result is received, then copied into place. Whole words are received in place.
    """
    received = share(sum(result.size_bytes for result in work.results), ipu)
    if received == 0:
        return nothing(FAMILY)
    rows = (array.dims[-1] * DTYPE_BITS[array.dtype] for array in (*work.operands, *work.results) if array.dims)
    apart = 0 if all(bits % (8 * _EXCHANGE_WORD_BYTES) == 0 for bits in rows) else received
    return step_cost(ipu, family=FAMILY, compute_cycles=copy_cycles(received, ipu), exchange_bytes=received, temporary_tile_bytes=apart)


def pad(work: Work, ipu: IpuSpec) -> StepCost:
    """As `moved`, but only the operand's bytes change tiles; all of the result is written."""
    written = share(work.results[0].size_bytes, ipu)
    if written == 0:
        return nothing(FAMILY)
    received = min(written, share(work.operands[0].size_bytes, ipu)) + work.operands[1].size_bytes
    return step_cost(ipu, family=FAMILY, compute_cycles=copy_cycles(written, ipu), exchange_bytes=received, temporary_tile_bytes=received)


def broadcast(work: Work, ipu: IpuSpec) -> StepCost:
    """The small operand is sent to the tiles that need it, which write their part of the result."""
    operand, result = work.operands[0], work.results[0]
    written = share(result.size_bytes, ipu)
    if written == 0:
        return nothing(FAMILY)
    received = broadcast_bytes(operand.size_bytes, result.size_bytes, ipu)
    return step_cost(ipu, family=FAMILY, compute_cycles=copy_cycles(written, ipu), exchange_bytes=received, temporary_tile_bytes=received)


def transpose(work: Work, ipu: IpuSpec) -> StepCost:
    """All bytes change tiles and are put into order; runs of the minor dimension stay together if it stays minor."""
    operand, result = work.operands[0], work.results[0]
    order = ints(work.attributes, "dimensions")
    wide = [dimension for dimension in order if operand.dims[dimension] > 1]
    if wide == sorted(wide):
        return _reordered(result, ipu, run_bytes=None)
    minor = max(wide)
    return _reordered(result, ipu, run_bytes=8 if wide[-1] == minor else _element_bytes(result))


def copy(work: Work, ipu: IpuSpec) -> StepCost:
    """A copy on the tiles; where the layout changes, a transposition."""
    operand, result = work.operands[0], work.results[0]
    before, after = _wide_layout(operand), _wide_layout(result)
    if before == after:
        return _reordered(result, ipu, run_bytes=None)
    if REGROUPED in work.attributes and _element_bytes(result) in _TRANSPOSED_BLOCKS and result.size:
        return _regrouped(result, ipu)
    return _reordered(result, ipu, run_bytes=8 if before[0] == after[0] else _element_bytes(result))


def reverse(work: Work, ipu: IpuSpec) -> StepCost:
    """All bytes change tiles; a reversed minor dimension is turned element by element."""
    result = work.results[0]
    reversed_ = [dimension for dimension in ints(work.attributes, "dimensions") if result.dims[dimension] > 1]
    wide = [dimension for dimension, size in enumerate(result.dims) if size > 1]
    if not reversed_:
        return _reordered(result, ipu, run_bytes=None)
    return _reordered(result, ipu, run_bytes=_element_bytes(result) if wide[-1] in reversed_ else 8)


def relaid(size_bytes: int, ipu: IpuSpec) -> StepCost:
    """Cost of giving an array the layout of another program's plan: all its bytes move, in runs of 8.

    Args:
        size_bytes: of the array, on one IPU.
        ipu: the IPU, without its I/O tiles.

    Returns:
        Cycles and bytes of the busiest tile.
    """
    part = share(size_bytes, ipu)
    if part == 0:
        return nothing("rearrange")
    return step_cost(ipu, family="rearrange", compute_cycles=rearrange_cycles(part, 8, ipu), exchange_bytes=part)


def _reordered(result: ArrayShape, ipu: IpuSpec, *, run_bytes: int | None) -> StepCost:
    """A copy in place (`run_bytes` None), or exchange and rearrangement in runs."""
    part = share(result.size_bytes, ipu)
    if part == 0:
        return nothing(FAMILY)
    if run_bytes is None:
        return step_cost(ipu, family=FAMILY, compute_cycles=copy_cycles(part, ipu))
    return step_cost(
        ipu,
        family="rearrange",
        compute_cycles=rearrange_cycles(part, run_bytes, ipu),
        exchange_bytes=part,
        temporary_tile_bytes=part,  # as received
    )


def _regrouped(result: ArrayShape, ipu: IpuSpec) -> StepCost:
    """Groups of channels transposed where they lie: the convolution's own exchange brings them (poplibs lib/popops/Rearrange.cpp)."""
    part = share(result.size_bytes, ipu)
    block_bytes, bundles = _TRANSPOSED_BLOCKS[_element_bytes(result)]
    workers = ipu.tile.worker_contexts
    transposing = _TRANSPOSE_SUPERVISOR_CYCLES + workers * (
        _TRANSPOSE_WORKER_BUNDLES + ceil_div(ceil_div(part, block_bytes), workers) * bundles
    )
    return step_cost(ipu, family="rearrange", compute_cycles=copy_cycles(part, ipu) + transposing)


def _element_bytes(array: ArrayShape) -> int:
    return max(1, DTYPE_BITS[array.dtype] // 8)


def _wide_layout(array: ArrayShape) -> tuple[int, ...]:
    """Dimensions of more than one element, minor first; row-major where the text names no layout."""
    order = array.minor_to_major or tuple(reversed(range(len(array.dims))))
    return tuple(dimension for dimension in order if array.dims[dimension] > 1)
