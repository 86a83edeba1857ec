"""How a product of matrices is split over the tiles: the cheapest of all splits, found by a pruned search.

[g, m, k] x [g, k, n] is cut along all four dimensions; a tile holds one block, computes on its matrix unit (AMP), by dot products
on its vector unit (HMAC), or by outer products where k is 1, and tiles that share a k add up their partial results. Either operand
may take the place of the weights. Follows poplibs@7eac0f26 lib/poplin/ConvPlan.cpp and ConvModel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Literal

import numpy as np

from tilestep.cost.attributes import ints
from tilestep.cost.copy import has_split_words
from tilestep.cost.dtypes import ARITHMETIC, Unit
from tilestep.cost.exchange import TILES_PER_BUS
from tilestep.cost.products.amp import amp_1x1, amp_1x1_at_least
from tilestep.cost.products.mac import VectorUnit, horizontal_mac, horizontal_mac_at_least, outer_product, vector_unit
from tilestep.cost.products.matrix_unit import MatrixUnit, matrix_unit, takes_float8
from tilestep.cost.splits import Ints, ceil_divide, cuts, integers
from tilestep.cost.step import StepCost, nothing
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.products.partition import Blocks, Candidates, PartitionPlan, Types, cheapest, footprint_of, held
from tilestep.plan.products.work_lists import one_element_bytes
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work
from tilestep.units import ceil_div

FAMILY = "matmul"
COMPLEX_PRODUCTS = 4
NAMES = ("groups", "rows", "inner", "columns")
_SWAPPED = ("groups", "columns", "inner", "rows")
DEFAULTS = PlanOptions()


@dataclass(frozen=True, kw_only=True)
class Matmul:
    """[groups, rows, inner] x [groups, inner, columns]."""

    groups: int
    rows: int
    inner: int
    columns: int
    left: str  # dtypes
    right: str
    result: str
    left_resident: bool = False  # has the plan's layout; only the part on other tiles has to be sent
    right_resident: bool = False
    left_apart: bool = False  # its rows are no whole words, as it lies in memory
    right_apart: bool = False

    @property
    def flops(self) -> int:
        """Two per multiply-add; complex ones count as four real ones."""
        real = COMPLEX_PRODUCTS if ARITHMETIC[self.result].is_complex else 1
        return 2 * real * self.groups * self.rows * self.inner * self.columns

    @property
    def swapped(self) -> Matmul:
        """The transposed product, with the operands' places exchanged."""
        return Matmul(
            groups=self.groups,
            rows=self.columns,
            inner=self.inner,
            columns=self.rows,
            left=self.right,
            right=self.left,
            result=self.result,
            left_resident=self.right_resident,
            right_resident=self.left_resident,
            left_apart=self.right_apart,
            right_apart=self.left_apart,
        )


def plan_dot(work: Work, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> StepCost:
    """Cost of HLO `dot`, `ragged-dot` or `scaled-dot`: the cheapest plan's, and its flops."""
    problem = matmul_of(work)
    if problem.flops == 0:
        return nothing(FAMILY)
    plan = matmul_plan(problem, ipu, options)
    parts = dict(plan.splits)
    layouts: list[str] = []
    for side, others in (("lhs", "rows"), ("rhs", "columns")):
        inner, batch = (ints(work.attributes, f"{side}_{kind}_dims") for kind in ("contracting", "batch"))
        rest = tuple(number for number in range(len(work.operands[len(layouts)].dims)) if number not in (*inner, *batch))
        layouts.append(layout({batch: parts["groups"], inner: parts["inner"], rest: parts[others]}, plan.tiles))
    return replace(plan.cost, layouts=tuple(layouts))


def layout(parts: Mapping[tuple[int, ...], int], tiles: int) -> str:
    """Layout of a resident operand under a plan for so many tiles: the number of parts of each dimension.

    Tiles that share a block hold equal parts of it, so plans for other numbers of tiles lay the same blocks out otherwise.
    """
    cut = ", ".join(f"{'x'.join(map(str, dimensions))} in {split}" for dimensions, split in sorted(parts.items()) if dimensions)
    return f"{cut} on {tiles}"


def matmul_of(work: Work) -> Matmul:
    """The product that a dot asks for; rows of a ragged dot use one of its groups each, so it is one product."""
    left, right = work.operands[0], work.operands[1]
    left_contracted = ints(work.attributes, "lhs_contracting_dims")
    batch = ints(work.attributes, "lhs_batch_dims")
    groups, inner = _size(left, batch), _size(left, left_contracted)
    unique = _size(right, ints(work.attributes, "rhs_group_dims"))
    each = max(1, groups * inner)
    resident = (*work.resident, False, False)
    return Matmul(
        groups=groups,
        rows=left.size // each,
        inner=inner,
        columns=right.size // (each * unique) if unique else 0,
        left=left.dtype,
        right=right.dtype,
        result=work.results[0].dtype,
        left_resident=resident[0],
        right_resident=resident[1],
        left_apart=has_split_words(left),
        right_apart=has_split_words(right),
    )


@dataclass(frozen=True, kw_only=True)
class MatmulMethod:
    """One way to compute on a tile; the functions are of (groups, rows, inner, columns) on a tile, in its grains, and give cycles."""

    name: str
    compute: Callable[[Ints, Ints, Ints, Ints], Ints]
    compute_at_least: Callable[[Ints, Ints, Ints, Ints], Ints]  # at most proportional to each
    partial_bytes: int
    in_grain: int = 1
    out_grain: int = 1
    regrouped: bool = False
    float8: bool = False  # the unit takes 8-bit floats as they are

    def at_least_on(self, tiles: int, problem: Matmul) -> int:
        """Cycles that no cut of the product over so many tiles can be below."""
        whole = (problem.groups, problem.rows, ceil_div(problem.inner, self.in_grain), ceil_div(problem.columns, self.out_grain))
        return int(self.compute_at_least(*(np.array([size], dtype=object) for size in whole))[0]) // tiles


@lru_cache(maxsize=8192)
def matmul_plan(problem: Matmul, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> PartitionPlan:
    """The cheapest plan of all splits, both orders of the operands, all methods; its splits are by the problem's own dimensions."""
    plan = best_plan(problem, ipu, options)
    assert plan is not None  # the first search has no bound
    return plan


def best_plan(problem: Matmul, ipu: IpuSpec, options: PlanOptions = DEFAULTS, *, at_most: int | None = None) -> PartitionPlan | None:
    """As `matmul_plan`; None where every plan takes more than `at_most` cycles."""
    if problem.flops == 0:
        raise ValueError(f"{problem} has no products to plan")
    best: PartitionPlan | None = None
    for method in methods(problem, ipu, options):
        for order, names in ((problem, NAMES),) if problem.swapped == problem else ((problem, NAMES), (problem.swapped, _SWAPPED)):
            bound = at_most if best is None else best.cost.cycles
            if bound is not None and method.at_least_on(ipu.num_tiles, order) > bound:
                continue
            found = search(order, method, ipu, options, at_most=bound, names=names)
            best = found if best is None else best if found is None else min(best, found, key=lambda plan: (plan.cost.cycles, plan.tiles))
    return best


def methods(problem: Matmul, ipu: IpuSpec, options: PlanOptions) -> Iterator[MatmulMethod]:
    """All that can compute a product, the most likely best first."""
    dtype = computes_in(problem.left, problem.right)
    how = ARITHMETIC[dtype]
    float8 = takes_float8(ipu, problem.left, problem.right)
    if float8:
        options = replace(options, partials_type="half")  # the only sums of 8-bit floats
    if float8 or how.matrix_unit:
        yield _blocks(unit_of(ipu, "float8" if float8 else how.unit, options), dtype)
    unit = vectors_of(ipu, dtype, options)
    yield _dot_products(unit, dtype)
    if problem.inner == 1 and not float8:
        yield _outer_products(unit, dtype)


def _blocks(unit: MatrixUnit, dtype: str) -> MatmulMethod:
    real = COMPLEX_PRODUCTS if ARITHMETIC[dtype].is_complex else 1
    return MatmulMethod(
        name="matrix unit",
        compute=lambda g, p, i, o: real * amp_1x1(p, i, o, g, unit),
        compute_at_least=lambda g, p, i, o: real * amp_1x1_at_least(p, g * i * o, unit),
        partial_bytes=partial_bytes(unit.partials == "half", dtype),
        in_grain=unit.in_channels,
        out_grain=unit.units,
        regrouped=unit.units != unit.in_channels,
        float8=unit.operands == "float8",
    )


def _dot_products(unit: VectorUnit, dtype: str) -> MatmulMethod:
    return MatmulMethod(
        name="dot products",
        compute=lambda g, p, i, o: horizontal_mac(np.ones_like(p), p, 1, i, o, g, unit),
        compute_at_least=lambda g, p, i, o: horizontal_mac_at_least(p, 1, i, g * o, unit),
        partial_bytes=partial_bytes(unit.half_partials, dtype),
    )


def _outer_products(unit: VectorUnit, dtype: str) -> MatmulMethod:
    return MatmulMethod(
        name="outer products",
        compute=lambda g, p, _, o: outer_product(p, o, g, unit),
        compute_at_least=lambda g, p, _, o: 2 * g * p * o,
        partial_bytes=partial_bytes(unit.half_partials, dtype),
    )


def unit_of(ipu: IpuSpec, unit: Unit | Literal["float8"], options: PlanOptions) -> MatrixUnit:
    """The matrix unit for operands that are computed on as such; products of floats are always added in floats."""
    if unit in ("half", "float8"):
        return matrix_unit(ipu, unit, options.partials_type, options.weight_load_bits)
    return matrix_unit(ipu, "float", "float", options.weight_load_bits)


def vectors_of(ipu: IpuSpec, dtype: str, options: PlanOptions) -> VectorUnit:
    """The vector unit for operands of a dtype."""
    return vector_unit(ARITHMETIC[dtype], ipu.tile.worker_contexts, half_partials=options.partials_type == "half")


def partial_bytes(half_partials: bool, dtype: str) -> int:
    """Bytes of a partial sum of products that are computed in a dtype."""
    return 2 if half_partials else max(4, DTYPE_BITS[dtype] // 8)


def computes_in(left: str, right: str) -> str:
    """Dtype of the products of two operands: the one that takes more bundles, or bits, a product."""
    return max((left, right), key=lambda dtype: (ARITHMETIC[dtype].emulation, ARITHMETIC[dtype].unit == "float", DTYPE_BITS[dtype]))


def search(
    problem: Matmul, method: MatmulMethod, ipu: IpuSpec, options: PlanOptions, *, at_most: int | None, names: tuple[str, ...] = NAMES
) -> PartitionPlan | None:
    """The cheapest split of one order of the operands, or None if all take more than `at_most` cycles."""
    sizes = (problem.groups, problem.rows, ceil_div(problem.inner, method.in_grain), ceil_div(problem.columns, method.out_grain))
    # More parts of the columns only add to the bytes that are sent of a resident left operand, more rows to those of a right one.
    greedy = 3 if not problem.left_resident else 1 if not problem.right_resident else None
    wide = integers(problem.flops, problem.groups * problem.rows * problem.inner, problem.groups * problem.inner * problem.columns)
    cut = cuts(sizes, ipu.num_tiles, even=3, greedy=greedy, dtype=wide)
    splits, (g, p, i, o) = cut.splits, cut.parts
    inner, columns = np.minimum(i * method.in_grain, problem.inner), np.minimum(o * method.out_grain, problem.columns)
    left_elements, right_elements = g * p * inner, g * inner * columns
    blocks = Blocks(
        left_elements=left_elements,
        right_elements=right_elements,
        left_bytes=sent_bytes(left_elements, problem.left, problem.left_resident, splits[3]),
        right_bytes=sent_bytes(right_elements, problem.right, problem.right_resident, splits[1]),
        left_shared=splits[3] % TILES_PER_BUS == 0,
        outputs=g * p * columns,
        depth=splits[2],
        tiles=cut.tiles,
        splits=splits,
    )
    candidates = Candidates(
        method=method.name,
        names=names,
        blocks=blocks,
        compute_at_least=method.compute_at_least(g, p, i, o),
        compute=lambda chosen: method.compute(g[chosen], p[chosen], i[chosen], o[chosen]),
    )
    plan = cheapest(
        candidates,
        Types(
            left=problem.left,
            right=problem.right,
            result=problem.result,
            partial_bytes=method.partial_bytes,
            padded=problem.inner % method.in_grain > 0,
            regrouped=method.regrouped,
            float8=method.float8,
            left_apart=problem.left_apart,
            right_apart=problem.right_apart,
        ),
        family=FAMILY,
        flops=problem.flops,
        ipu=ipu,
        options=options,
        at_most=at_most,
    )
    if plan is None:
        return None
    parts = [ceil_div(size, split) for size, (_, split) in zip(sizes, plan.splits, strict=True)]
    channels = (parts[2], parts[3]) if method.in_grain > 1 else (1, 1)  # the vector unit goes over all channels of a tile as one group
    lists = one_element_bytes(parts[0], *channels, ipu.tile.worker_contexts)
    received = footprint_of(plan.cost).received_bytes
    rows_split, columns_split = plan.splits[1][1], plan.splits[3][1]
    lies = (
        held(plan.block_elements[0], problem.left, grain=method.in_grain, sharers=columns_split),
        held(plan.block_elements[1], problem.right, grain=method.in_grain * method.out_grain, sharers=rows_split, weights_of=plan.tiles),
    )
    if names is _SWAPPED:
        received, lies = (received[1], received[0]), (lies[1], lies[0])
    footprint = replace(footprint_of(plan.cost), received_bytes=received, list_bytes=lists)
    return replace(plan, cost=replace(plan.cost, footprint=footprint, held=lies))


def sent_bytes(elements: Ints, dtype: str, resident: bool, sharers: Ints) -> Ints:
    """Bytes of an operand's block that a tile receives. Of a resident one each of its `sharers` holds an equal part."""
    size_bytes = ceil_divide(elements * DTYPE_BITS[dtype], 8)
    return size_bytes - size_bytes // sharers if resident else size_bytes


def _size(array: ArrayShape, dimensions: tuple[int, ...]) -> int:
    return prod(array.dims[dimension] for dimension in dimensions)
