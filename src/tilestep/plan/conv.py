"""How a convolution is split over the tiles, gradients included: the cheapest of three methods, each with its own search.

- matrix unit, kernel element by kernel element (poplibs' n x 1 vertex), cut by groups, batch, field and channels;
- expanded: every window becomes a row, and the rest is a matmul (a kernel of one element needs no expansion);
- vector unit, for dtypes that have no matrix unit and for few channels.

XLA has one operation for all: gradients come as convolutions with other labels, dilations and group counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from tilestep.cost.amp import MatrixUnit, amp_nx1, amp_nx1_at_least, vector_macs
from tilestep.cost.attributes import ints, window
from tilestep.cost.copy import rearrange_cycles
from tilestep.cost.dtypes import ARITHMETIC
from tilestep.cost.exchange import TILES_PER_BUS, share
from tilestep.cost.splits import Ints, cuts
from tilestep.cost.step import StepCost, nothing, step_cost, together
from tilestep.errors import HloError
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.field import POINT, Axis
from tilestep.plan.matmul import DEFAULTS, THIN, Matmul, computes_in, mac_bundles, matmul_plan, sent_bytes, unit_of
from tilestep.plan.partition import Blocks, Plan, Types, cheapest
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

FAMILY = "convolution"
_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)$")
_COMPLEX_PRODUCTS = 4


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """`groups` convolutions side by side; channels are those of one group."""

    groups: int
    batch: int
    field: tuple[Axis, ...]
    in_channels: int
    out_channels: int
    left: str  # dtypes
    right: str
    result: str
    left_resident: bool = False
    right_resident: bool = False

    @property
    def taps(self) -> int:
        """Kernel elements that meet an input of an average output."""
        return prod(axis.taps for axis in self.field)

    @property
    def flops(self) -> int:
        """Two per multiply-add with an input that is there; complex ones count as four real ones."""
        real = _COMPLEX_PRODUCTS if ARITHMETIC[self.result].is_complex else 1
        return 2 * real * self.groups * self.batch * self.in_channels * self.out_channels * prod(axis.products for axis in self.field)


def plan_convolution(work: Work, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> StepCost:
    """Cost of HLO `convolution`: the cheapest plan's, and its flops.

    Raises: HloError if the labels or the window are not understood.
    """
    return _priced(convolution_of(work), ipu, options)


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
def _priced(problem: Convolution, ipu: IpuSpec, options: PlanOptions) -> StepCost:
    if problem.flops == 0:
        return nothing(FAMILY)
    best = _expanded(problem, ipu, options)
    if problem.taps > 1:
        how = ARITHMETIC[computes_in(problem.left, problem.right)]
        units: list[MatrixUnit | None] = []
        if how.matrix_unit:
            units.append(unit_of(ipu, how.unit, options))
        if not how.matrix_unit or min(problem.in_channels, problem.out_channels) < THIN:
            units.append(None)
        for unit in units:
            plan = _search(problem, unit, ipu, options, at_most=best.cycles)
            if plan is not None and plan.cost.cycles < best.cycles:
                best = plan.cost
    return best


def _expanded(problem: Convolution, ipu: IpuSpec, options: PlanOptions) -> StepCost:
    """As a matmul of all windows, which one superstep before lays out row by row (exchange, rearrangement).

    If the windows and the product do not fit into the proportion of a tile's memory that the options allow, both are
    made in serial parts of the positions, each a plan of its own.
    """
    positions = problem.batch * prod(axis.outputs for axis in problem.field)
    bound = options.available_memory_proportion * ipu.tile.sram_bytes
    parts = 1
    cost = _expanded_part(problem, positions, ipu, options)
    while cost.temporary_tile_bytes > bound and problem.taps > 1 and parts < positions:
        parts *= 2
        cost = _expanded_part(problem, ceil_div(positions, parts), ipu, options)
    return replace(together(FAMILY, [cost] * parts), result_tile_elements=parts * cost.result_tile_elements, flops=problem.flops)


def _expanded_part(problem: Convolution, positions: int, ipu: IpuSpec, options: PlanOptions) -> StepCost:
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
    product = matmul_plan(matmul, ipu, options).cost
    if problem.taps == 1:
        return product
    part = share(ceil_div(problem.groups * positions * matmul.inner * DTYPE_BITS[problem.left], 8), ipu)
    windows = step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=rearrange_cycles(part, 8, ipu),
        exchange_bytes=part,
        temporary_tile_bytes=part + product.temporary_tile_bytes,
        result_tile_elements=product.result_tile_elements,
    )
    return together(FAMILY, [product, windows])


def _search(problem: Convolution, unit: MatrixUnit | None, ipu: IpuSpec, options: PlanOptions, *, at_most: int) -> Plan | None:
    """The cheapest cut by groups, batch, rows, columns and channels; dimensions before the last two go with the batch."""
    dtype = computes_in(problem.left, problem.right)
    how = ARITHMETIC[dtype]
    real = _COMPLEX_PRODUCTS if how.is_complex else 1
    in_grain, out_grain = (unit.in_channels, unit.units) if unit else (1, 1)
    outer, rows, columns = problem.field[:-2], *((POINT, *problem.field)[-2:])
    sizes = (
        problem.groups,
        problem.batch * prod(axis.outputs for axis in outer),
        rows.outputs,
        columns.outputs,
        ceil_div(problem.in_channels, in_grain),
        ceil_div(problem.out_channels, out_grain),
    )
    # More parts of the out channels only add to what is sent of a resident input.
    cut = cuts(sizes, ipu.num_tiles, even=5, greedy=None if problem.left_resident else 5)
    g, b, y, x, i, o = cut.parts
    in_channels, out_channels = np.minimum(i * in_grain, problem.in_channels), np.minimum(o * out_grain, problem.out_channels)
    read = b * prod(axis.window.size for axis in outer) * rows.reach(y) * columns.reach(x)
    left_elements = g * read * in_channels
    right_elements = g * prod(axis.window.size for axis in problem.field) * in_channels * out_channels
    positions_split = cut.splits[1] * cut.splits[2] * cut.splits[3]
    blocks = Blocks(
        left_elements=left_elements,
        right_elements=right_elements,
        left_bytes=sent_bytes(left_elements, problem.left, problem.left_resident, cut.splits[5]),
        right_bytes=sent_bytes(right_elements, problem.right, problem.right_resident, positions_split),
        left_shared=cut.splits[5] % TILES_PER_BUS == 0,
        outputs=g * b * y * x * out_channels,
        depth=cut.splits[4],
        tiles=cut.tiles,
        splits=cut.splits,
    )
    taps, kernel_rows = problem.taps, problem.taps // columns.taps
    bundles = mac_bundles(dtype)

    def compute(chosen: Ints) -> Ints:
        if unit is not None:
            taken = (part[chosen] for part in (b * y, x, i, o, g))
            own_rows, length, in_blocks, out_blocks, groups = taken
            return real * amp_nx1(own_rows, length, kernel_rows, taps, in_blocks, out_blocks, groups, unit)
        outputs, macs, workers = blocks.outputs[chosen], taps * in_channels[chosen], ipu.tile.worker_contexts
        # Vectors along the products of one output, or along outputs with one more load per vector.
        along = vector_macs(outputs, macs, per_vector=how.per_vector, bundles=bundles, workers=workers)
        across = vector_macs(-(-outputs // how.per_vector), macs, per_vector=1, bundles=bundles + 1, workers=workers)
        return np.minimum(along, across)

    return cheapest(
        blocks,
        compute_at_least=real * amp_nx1_at_least(b * y * x, g * i * o * taps, unit)
        if unit
        else blocks.outputs * taps * in_channels * bundles // how.per_vector,
        compute=compute,
        types=Types(
            left=problem.left,
            right=problem.right,
            result=problem.result,
            partial_bytes=2 if unit is not None and unit.partials == "half" else max(4, DTYPE_BITS[dtype] // 8),
            padded=unit is not None and problem.in_channels % unit.in_channels > 0,
            regrouped=unit is not None and unit.units != unit.in_channels,
        ),
        family=FAMILY,
        method="matrix unit" if unit else "vector unit",
        names=("groups", "batch", "rows", "columns", "in channels", "out channels"),
        flops=problem.flops,
        ipu=ipu,
        options=options,
        at_most=at_most,
    )
