"""Splits convolutions over the tiles, with their gradients: the cheapest of all methods, each with its own search.

Either a tile computes windows itself (the methods of `tilestep.plan.products.conv_methods`), or the convolution is expanded: every window
becomes a row of a matmul. A kernel of one element needs no expansion. XLA has one operation for all: gradients are convolutions with
other labels, dilations and group counts.
"""

import math
import re
from dataclasses import replace
from functools import lru_cache
from math import prod

from tilestep.cost.attributes import WindowDimension, ints, window
from tilestep.cost.copy import rearrange_cycles
from tilestep.cost.exchange import share
from tilestep.cost.step import StepCost, nothing, step_cost, together
from tilestep.errors import HloError
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.products.conv_methods import FAMILY, Convolution, methods, search
from tilestep.plan.products.field import Axis
from tilestep.plan.products.matmul import DEFAULTS, Matmul, best_plan
from tilestep.plan.products.partition import PartitionPlan, footprint_of
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

_CHANNELS = 16  # in the largest group of the matrix unit, beside that of 8-bit floats
_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)$")


def plan_convolution(work: Work, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> StepCost:
    """Cost of HLO `convolution`: the cheapest plan's, and its flops.

    Raises: HloError if the labels or the window are not understood.
    """
    cost = convolution_plan(convolution_of(work), ipu, options)
    # The labels say what each dimension of the kernel means: the same parts of other dimensions are another layout.
    return replace(cost, layouts=tuple(f"{text} of {work.attributes['dim_labels']}" if text else "" for text in cost.layouts))


def convolution_of(work: Work) -> Convolution:
    """The convolution that an operation asks for."""
    left, right, result = work.operands[0], work.operands[1], work.results[0]
    text = work.attributes.get("dim_labels", "")
    labels = _LABELS.match(text)
    if labels is None:
        raise HloError(f"dim_labels={text!r} of a convolution should look like 'b01f_01io->b01f'")
    of_left, of_right, of_result = labels.groups()
    rank = len(of_left) - 2
    feature_groups = (ints(work.attributes, "feature_group_count") or (1,))[0]
    batch_groups = (ints(work.attributes, "batch_group_count") or (1,))[0]
    groups = feature_groups * batch_groups
    resident = (*work.resident, False, False)
    field = tuple(
        Axis(inputs=left.dims[of_left.index(str(axis))], outputs=result.dims[of_result.index(str(axis))], window=dimension)
        for axis, dimension in enumerate(window(work.attributes, rank))
    )
    return Convolution(
        groups=groups,
        batch=left.dims[of_left.index("b")] // batch_groups,
        field=field,
        in_channels=right.dims[of_right.index("i")],
        out_channels=right.dims[of_right.index("o")] // groups,
        left=left.dtype,
        right=right.dtype,
        result=result.dtype,
        left_resident=resident[0],
        right_resident=resident[1],
    )


@lru_cache(maxsize=4096)
def convolution_plan(problem: Convolution, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> StepCost:
    """Cost of the cheapest plan of all methods and cuts that fits into the memory that the options allow.

    If none does the memory is doubled until one does or it is twice a tile's; then any plan will do.
    Source: poplibs@7eac0f26 lib/poplin/ConvPlan.cpp (minimizeMemory in runPlanner).
    """
    if problem.flops == 0:
        return nothing(FAMILY)
    room = options.available_memory_proportion
    while True:
        found = _cheapest(problem, ipu, replace(options, available_memory_proportion=min(room, 1)), room)
        if found is not None:
            return found
        room = 2 * room if room < 2 else math.inf


def _cheapest(problem: Convolution, ipu: IpuSpec, options: PlanOptions, room: float) -> StepCost | None:
    """Of the plans that take at most so much room, as a proportion of a tile's memory; None if there is none."""
    best = _windowed(problem, ipu, options, room, at_most=None) if problem.taps > 1 else None
    expanded = _expanded(problem, ipu, options, room, at_most=best.cycles if best else None)
    if expanded is not None and (best is None or expanded.cycles < best.cycles):
        best = expanded
    for number in reversed(range(len(problem.field))):
        partly = partly_expanded(problem, number, ipu, options, room, at_most=best.cycles if best else None)
        if partly is not None and (best is None or partly.cycles < best.cycles):
            best = partly
    return best


def _windowed(problem: Convolution, ipu: IpuSpec, options: PlanOptions, room: float, *, at_most: int | None) -> StepCost | None:
    """By the methods with which tiles compute windows themselves."""
    best: StepCost | None = None
    for method in methods(problem, ipu, options):
        bound = best.cycles if best else at_most
        plan = search(method, ipu, options, flops=problem.flops, at_most=bound, room=room)
        if plan is not None and (bound is None or plan.cost.cycles < bound):
            best = replace(plan.cost, layouts=("", _layout(plan, "groups", "kernel", "in channels", "out channels")))
    return best


def partly_expanded(
    problem: Convolution, number: int, ipu: IpuSpec, options: PlanOptions, room: float, *, at_most: int | None
) -> StepCost | None:
    """One dimension of the kernel becomes input channels: a superstep lays out its windows, tiles compute those of the others.

    Tried where it fills groups of channels, or the kernel is longer than the field of its outputs (as in gradients by the weights).
    Source: getExpandDimsCandidates in poplibs@7eac0f26 lib/poplin/ConvPlan.cpp, which tries each set of dimensions.
    """
    axis, others = problem.field[number], (*problem.field[:number], *problem.field[number + 1 :])
    if axis.taps == 1 or all(other.taps == 1 for other in others):
        return None
    if problem.in_channels % _CHANNELS == 0 and axis.taps <= axis.outputs:
        return None
    gone = Axis(inputs=axis.outputs, outputs=axis.outputs, window=WindowDimension())
    field = (*problem.field[:number], gone, *problem.field[number + 1 :])
    rest = replace(problem, field=field, in_channels=problem.in_channels * axis.taps, left_resident=False)
    windows = _rows(problem.groups * problem.batch * prod(each.inputs for each in field) * rest.in_channels, problem.left, ipu)
    taken = windows.exchange_bytes / ipu.tile.sram_bytes
    if 2 * taken > room or (at_most is not None and windows.cycles >= at_most):
        return None
    left = replace(
        options, available_memory_proportion=options.available_memory_proportion - min(taken, options.available_memory_proportion / 2)
    )
    cost = _windowed(rest, ipu, left, room - taken, at_most=None if at_most is None else at_most - windows.cycles)
    return cost and replace(_after_windows(windows, cost), flops=problem.flops)


def _rows(elements: int, dtype: str, ipu: IpuSpec) -> StepCost:
    """Laying out so many elements of windows."""
    part = share(ceil_div(elements * DTYPE_BITS[dtype], 8), ipu)
    return step_cost(ipu, family=FAMILY, compute_cycles=rearrange_cycles(part, 8, ipu), exchange_bytes=part, temporary_tile_bytes=part)


def _expanded(problem: Convolution, ipu: IpuSpec, options: PlanOptions, room: float, *, at_most: int | None) -> StepCost | None:
    """As a matmul of all windows, which one superstep before lays out row by row (exchange, rearrangement).

    Half of the memory that the options allow is for the windows, the rest for the product. If that is not enough for all windows
    both are made in serial parts of the batch, each a plan of its own; more parts than needed are tried as long as their
    supersteps alone do not take longer than `at_most` cycles or what was found, and lower bounds do not rule out the products: those of
    half the positions take at least half as long, twice as often.
    """
    positions = problem.batch * prod(axis.outputs for axis in problem.field)
    bound = room * ipu.tile.sram_bytes
    best, parts = at_most, 1
    found: StepCost | None = None
    while True:
        each = ceil_div(positions, parts)
        windows = _windows(problem, each, ipu)
        if parts > problem.batch and problem.taps > 1:
            return found
        if best is not None and parts * windows.cycles >= best:
            return found  # and more parts only take more supersteps
        if windows.exchange_bytes * 2 <= bound:
            taken = min(windows.exchange_bytes / ipu.tile.sram_bytes, options.available_memory_proportion / 2)
            left = replace(options, available_memory_proportion=options.available_memory_proportion - taken)
            cost = _expanded_part(problem, each, windows, ipu, left, at_most=None if best is None else best // parts)
            if cost is None:
                return found
            if best is None or parts * cost.cycles < best:
                best = parts * cost.cycles
                found = replace(
                    together(FAMILY, [cost], parts),
                    result_tile_elements=parts * cost.result_tile_elements,
                    layouts=cost.layouts,
                    held=cost.held,
                    footprint=cost.footprint,
                    flops=problem.flops,
                )
        if problem.taps == 1 or each == 1 or (best is not None and 2 * parts * 2 * ipu.superstep_overhead_cycles > best):
            return found
        parts *= 2


def _windows(problem: Convolution, positions: int, ipu: IpuSpec) -> StepCost:
    """Laying out the windows of so many outputs; nothing for a kernel of one element."""
    if problem.taps == 1:
        return nothing(FAMILY)
    return _rows(problem.groups * positions * problem.in_channels * problem.taps, problem.left, ipu)


def _expanded_part(
    problem: Convolution, positions: int, windows: StepCost, ipu: IpuSpec, options: PlanOptions, *, at_most: int | None
) -> StepCost | None:
    """The windows of so many outputs, and their products."""
    matmul = Matmul(
        groups=problem.groups,
        rows=positions,
        inner=problem.in_channels * problem.taps,
        columns=problem.out_channels,
        left=problem.left,
        right=problem.right,
        result=problem.result,
        left_resident=problem.left_resident and problem.taps == 1,
        right_resident=problem.right_resident,
    )
    plan = best_plan(matmul, ipu, options, at_most=None if at_most is None else max(0, at_most - windows.cycles))
    if plan is None:
        return None
    product = replace(plan.cost, layouts=(_layout(plan, "groups", "rows", "inner"), _layout(plan, "groups", "inner", "columns")))
    return product if problem.taps == 1 else _after_windows(windows, product)


def _after_windows(windows: StepCost, product: StepCost) -> StepCost:
    """The product of windows that a superstep lays out before."""
    footprint = footprint_of(product)
    left, right = footprint.received_bytes
    return replace(
        together(FAMILY, [windows, product]),
        footprint=replace(footprint, received_bytes=(windows.exchange_bytes + left, right)),
        temporary_tile_bytes=windows.temporary_tile_bytes + product.temporary_tile_bytes,
        layouts=("", product.layouts[1]),
        held=(None, product.held[1]),
    )


def _layout(plan: PartitionPlan, *names: str) -> str:
    parts = dict(plan.splits)
    return f"{plan.method}: " + ", ".join(f"{name} in {parts[name]}" for name in names) + f" on {plan.tiles}"
