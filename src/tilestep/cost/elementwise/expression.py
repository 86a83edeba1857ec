"""Elementwise operations, one at a time or a whole expression fused."""

from collections.abc import Sequence
from typing import NamedTuple

from tilestep.cost.copy import rearrange_cycles
from tilestep.cost.dtypes import ARITHMETIC, VECTOR_BYTES, dtype_assumptions
from tilestep.cost.elementwise.codelets import turn
from tilestep.cost.elementwise.rates import BUNDLES, FLOAT8_AS_IT_IS, float8_cast, rate
from tilestep.cost.exchange import broadcast_bytes, share
from tilestep.cost.step import StepCost, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work
from tilestep.units import Cycles, ceil_div

FAMILY = "elementwise"
# poplibs@7eac0f26 lib/popops/PerformanceEstimation.cpp (basicOpSupervisorOverhead), and a worker's own start and end.
SUPERVISOR_CYCLES = 11
WORKER_BUNDLES = 20


class Moves(NamedTuple):
    """What moves before a fusion runs, because inputs lie elsewhere than it computes."""

    moved_bytes: int = 0  # full-size inputs that have another layout, over all tiles
    halo_bytes: int = 0  # the fullest tile receives so many of neighbouring blocks, where inputs are read through shifted slices
    copied_bytes: int = 0  # the fullest tile copies so many of such inputs together with their halos


NO_MOVES = Moves()


def elementwise_fusion(
    ops: Sequence[tuple[str, str]],
    *,
    size: int,
    inputs: Sequence[ArrayShape],
    outputs: Sequence[ArrayShape],
    ipu: IpuSpec,
    moves: Moves = NO_MOVES,
    tile_elements: int = 0,
    in_place: bool = False,
) -> StepCost:
    """Cost of one superstep in which each worker loads a vector of every input, computes the expression, and stores the outputs.

    Args:
        ops: (opcode, dtype) of each operation. The dtype is that of the first operand for compare, convert and the like, else the result's.
        size: elements of the expression, in an even layout over the tiles.
        inputs: shapes of the arrays that are read, without constants. One smaller than `size` is a broadcast, sent to all tiles first.
        outputs: shapes of the arrays that are stored.
        ipu: the IPU.
        moves: of inputs, before it runs.
        tile_elements: elements of the expression on the fullest tile, if its layout is uneven; 0: it is even.
        in_place: whether the result takes over the memory of an input; it counts where there is one operation.

    Returns:
        Cycles and bytes of the busiest tile.

    Raises:
        KeyError: for an opcode that is not in `ELEMENTWISE`.

    Source:
        poplibs@7eac0f26 lib/popops/PerformanceEstimation.cpp; docs/reference/cost-model.md, section Estimators.
    """
    if size == 0:
        return nothing(FAMILY)
    rates = [rate(opcode, dtype) for opcode, dtype in ops]
    elements = ceil_div(max(share(size, ipu), tile_elements), ipu.tile.worker_contexts)  # the busiest worker's
    # 8-bit floats that are only moved, or converted by an operation of their own, are not converted when loaded and stored.
    computed = not ipu.has_float8 or any(ARITHMETIC[dtype].float8 and opcode not in FLOAT8_AS_IT_IS for opcode, dtype in ops)
    full = [array for array in inputs if array.size == size]  # a broadcast value stays in registers over a worker's rows
    small = [array for array in inputs if array.size < size]
    codelet = turn(*ops[0], with_scalar=len(full) < 2, in_place=in_place) if len(ops) == 1 else None
    if codelet is not None:  # loads and stores are in it
        cycles, of_elements = codelet
        bundles = cycles * ceil_div(elements, of_elements) + _converting(elements, (*full, *outputs))
    else:
        bundles = sum(each.bundles * ceil_div(elements, each.elements) for each in rates)
        bundles += memory_bundles(elements, full, outputs, ipu, fused=len(ops) > 1, convert_float8=computed)
    received = (
        share(moves.moved_bytes, ipu)
        + moves.halo_bytes
        + sum(broadcast_bytes(array.size_bytes, ceil_div(size * DTYPE_BITS[array.dtype], 8), ipu) for array in small)
    )
    assumed = {sentence for each in rates for sentence in each.assumptions}
    assumed.update(dtype_assumptions(*(array.dtype for array in (*inputs, *outputs) if computed or not ARITHMETIC[array.dtype].float8)))
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=rearrange_cycles(moves.copied_bytes, VECTOR_BYTES, ipu) + worker_cycles(bundles, ipu),
        exchange_bytes=received,
        temporary_tile_bytes=received + moves.copied_bytes,
        flops=size * sum(each.flops_per_element for each in rates),
        assumptions=tuple(sorted(assumed)),
    )


def dearest(ops: Sequence[tuple[str, str]]) -> int:
    """Which operation of a fusion takes most bundles for an element, and names the fusion. Of equals the last, whose result it stores.

    Args: ops: as of `elementwise_fusion`, at least one.
    Raises: KeyError for an opcode that is not in ELEMENTWISE.
    """
    rates = [rate(opcode, dtype) for opcode, dtype in ops]
    return max(range(len(ops)), key=lambda index: (rates[index].bundles / rates[index].elements, index))


def memory_bundles(
    elements: int,
    inputs: Sequence[ArrayShape],
    outputs: Sequence[ArrayShape],
    ipu: IpuSpec,
    *,
    fused: bool = False,
    convert_float8: bool = True,
) -> int:
    """Bundles in which one worker loads and stores `elements` of each array.

    An operation for which the library has no codelet loads two vectors a bundle where the tile's load and store width allows (two
    loads and a store: 24 B), as its sums do.
    The codelet that is generated for a fused expression is a loop of compiled code: each load and each store is a
    bundle, and one closes the loop (assumed; STREAM triads by the vendor's operations take 6.2 to 6.4 bundles a vector).
    """
    loads = sum(_vectors(elements, array.dtype) for array in inputs)
    stores = sum(_vectors(elements, array.dtype) for array in outputs)
    if fused:
        loads += max((_vectors(elements, array.dtype) for array in (*inputs, *outputs)), default=0)
    else:
        loads = ceil_div(loads, max(1, min(2, ipu.tile.load_store_bytes_per_cycle // VECTOR_BYTES)))
    converted = [array for array in (*inputs, *outputs) if convert_float8 or not ARITHMETIC[array.dtype].float8]
    return loads + stores + _converting(elements, converted)


def _converting(elements: int, arrays: Sequence[ArrayShape]) -> int:
    """Bundles to widen or narrow elements of dtypes that the tile has no arithmetic for: one per vector that is computed on (assumed)."""
    converted = [how for array in arrays if (how := ARITHMETIC[array.dtype]).converts]
    return sum(ceil_div(elements, how.per_vector) for how in converted)


def worker_cycles(bundles: int, ipu: IpuSpec) -> Cycles:
    """Cycles of a codelet whose busiest worker issues `bundles`: all workers take turns, one bundle a cycle."""
    return Cycles(SUPERVISOR_CYCLES + ipu.tile.worker_contexts * (WORKER_BUNDLES + bundles))


def elementwise(work: Work, ipu: IpuSpec) -> StepCost:
    """One elementwise operation as a fusion of its own. Its operands have the layout of its result."""
    result = work.results[0]
    computes_in = max((*work.operands, result), key=lambda array: DTYPE_BITS[array.dtype]).dtype if work.operands else result.dtype
    opcode = named_cast(work.opcode, work.operands[0].dtype, result.dtype, ipu) if work.operands else work.opcode
    return elementwise_fusion([(opcode, computes_in)], size=result.size, inputs=work.operands, outputs=work.results, ipu=ipu)


def named_cast(opcode: str, source: str, target: str, ipu: IpuSpec) -> str:
    """Under which name an operation is priced: a conversion from or to 8-bit floats by an instruction of the machine's, or its own."""
    cast = float8_cast(source, target) if opcode == "convert" and ipu.has_float8 else None
    return cast or opcode


def map_(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `map`: a scalar function of all operands, element by element."""
    result = work.results[0]
    ops = [(opcode, result.dtype) for opcode in work.body_opcodes if opcode in BUNDLES]
    return elementwise_fusion(ops, size=result.size, inputs=work.operands, outputs=work.results, ipu=ipu)


def _vectors(elements: int, dtype: str) -> int:
    return ceil_div(elements * DTYPE_BITS[dtype], 8 * VECTOR_BYTES)
