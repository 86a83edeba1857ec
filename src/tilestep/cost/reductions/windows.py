"""Operations that slide a window over an array: pooling, its gradient, and other windowed reductions."""

from math import gcd, prod

from tilestep.cost.attributes import WindowDimension, taps, window
from tilestep.cost.elementwise.expression import worker_cycles
from tilestep.cost.exchange import share
from tilestep.cost.reductions.reduce import RESULT_BUNDLES
from tilestep.cost.reductions.reducer import applied
from tilestep.cost.step import StepCost, Supersteps, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import Work
from tilestep.units import ceil_div

FAMILY = "window"
# Two loads (or load and compare) and the pointer of the next tap: poplibs@7eac0f26 lib/popnn/popnnCycleEstimators.cpp.
TAP_BUNDLES = 3
# Applications of the function per element and dimension when running results are kept, however wide the window
# (van Herk 1992; Gil and Werman 1993).
RUNNING_APPLICATIONS = 3


def reduce_window(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `reduce-window`. Each result reads its window, but wide windows of stride 1 keep running results.

    One superstep. A tile receives its part of the operands and half as much again for margins (assumed).
    """
    result, arrays = work.results[0], work.operands[: len(work.results)]
    if result.size == 0:
        return nothing(FAMILY)
    dimensions = window(work.attributes, len(result.dims))
    applications = prod(_meeting(dimension) for dimension in dimensions)
    if all(dimension.stride == 1 for dimension in dimensions):
        wide = sum(dimension.size > 1 for dimension in dimensions)
        applications = min(applications, max(1, RUNNING_APPLICATIONS * wide))
    apply = applied(work.body_opcodes, tuple(array.dtype for array in arrays), least=TAP_BUNDLES)
    vectors = _worker_vectors(result.size, apply.elements, ipu)
    received = ceil_div(3 * share(sum(array.size_bytes for array in arrays), ipu), 2)
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=worker_cycles(vectors * (RESULT_BUNDLES + applications * apply.bundles), ipu),
        exchange_bytes=received,
        temporary_tile_bytes=received,
        flops=result.size * (applications - 1) * apply.flops,
        assumptions=apply.assumptions,
    )


def select_and_scatter(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `select-and-scatter`: selects in the window of each source element, and adds the element there.

    Two supersteps. In the first, parts of operand and source arrive and the selection is made. In the second, selected values are sent
    and added.
    """
    operand, source, result = work.operands[0], work.operands[1], work.results[0]
    if source.size == 0 or result.size == 0:
        return nothing(FAMILY)
    width = taps(window(work.attributes, len(operand.dims)))
    select = applied(("compare", "select"), (operand.dtype,), least=TAP_BUNDLES)
    add = applied(("add",), (source.dtype,), least=TAP_BUNDLES)
    selected = worker_cycles(_worker_vectors(source.size, select.elements, ipu) * (RESULT_BUNDLES + width * select.bundles), ipu)
    added = worker_cycles(_worker_vectors(max(result.size, source.size), add.elements, ipu) * add.bundles, ipu)
    received = share(operand.size_bytes + source.size_bytes, ipu)
    sent = share(max(result.size_bytes, source.size_bytes), ipu)
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=selected + added,
        exchange_bytes=received + sent,
        supersteps=Supersteps(count=2, syncs=2),
        temporary_tile_bytes=received + sent,
        flops=source.size * (width * select.flops + add.flops),
        assumptions=tuple(sorted({*select.assumptions, *add.assumptions})),
    )


def _meeting(dimension: WindowDimension) -> int:
    """Elements of a window that meet an element and not a gap, at most, where the array is dilated."""
    return ceil_div(dimension.size * gcd(dimension.base_dilation, dimension.dilation), dimension.base_dilation)


def _worker_vectors(size: int, elements: int, ipu: IpuSpec) -> int:
    """Groups of `elements` that the busiest worker has of `size` elements spread over the tiles."""
    return ceil_div(ceil_div(share(size, ipu), ipu.tile.worker_contexts), elements)
