"""How a product of matrices is split over the tiles: the cheapest of all splits, found by a pruned search.

[g, m, k] x [g, k, n] is cut along all four dimensions; a tile holds one block, computes on its matrix unit (or, for
dtypes that have none and for thin products, its vector unit), and tiles that share a k add up their partial results.
Either operand may take the place of the weights. Follows poplibs@7eac0f26 lib/poplin/ConvPlan.cpp and ConvModel.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tilestep.cost.amp import MatrixUnit, amp_1x1, amp_1x1_at_least, matrix_unit, vector_macs
from tilestep.cost.attributes import ints
from tilestep.cost.dtypes import ARITHMETIC, Unit
from tilestep.cost.exchange import TILES_PER_BUS
from tilestep.cost.splits import Ints, ceil_divide, cuts
from tilestep.cost.step import StepCost, nothing
from tilestep.machine.spec import IpuSpec
from tilestep.options import PlanOptions
from tilestep.plan.partition import Blocks, Plan, Types, cheapest
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work
from tilestep.units import ceil_div

FAMILY = "matmul"
# Below this many rows or columns the matrix unit's blocks are mostly padding, and vectors are tried too.
THIN = 16
_COMPLEX_PRODUCTS = 4
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
    left_resident: bool = False  # lies as the plan wants; only what other tiles hold of it has to be sent
    right_resident: bool = False

    @property
    def flops(self) -> int:
        """Two per multiply-add; complex ones count as four real ones."""
        real = _COMPLEX_PRODUCTS if ARITHMETIC[self.result].is_complex else 1
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
        )


def plan_dot(work: Work, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> StepCost:
    """Cost of HLO `dot`, `ragged-dot` or `scaled-dot`: the cheapest plan's, and its flops."""
    problem = matmul_of(work)
    if problem.flops == 0:
        return nothing(FAMILY)
    return matmul_plan(problem, ipu, options).cost


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
    )


@lru_cache(maxsize=8192)
def matmul_plan(problem: Matmul, ipu: IpuSpec, options: PlanOptions = DEFAULTS) -> Plan:
    """The cheapest plan of all splits, both orders of the operands, matrix and vector unit."""
    if problem.flops == 0:
        raise ValueError(f"{problem} has no products to plan")
    how = ARITHMETIC[computes_in(problem.left, problem.right)]
    units: list[MatrixUnit | None] = []
    if how.matrix_unit:
        units.append(unit_of(ipu, how.unit, options))
    if not how.matrix_unit or min(problem.rows, problem.columns, problem.inner) < THIN:
        units.append(None)
    best: Plan | None = None
    for unit in units:
        for order in (problem,) if problem.swapped == problem else (problem, problem.swapped):
            found = _search(order, unit, ipu, options, at_most=best.cost.cycles if best else None)
            best = found if best is None else best if found is None else min(best, found, key=lambda plan: (plan.cost.cycles, plan.tiles))
    assert best is not None  # the first search has no bound
    return best


def unit_of(ipu: IpuSpec, unit: Unit, options: PlanOptions) -> MatrixUnit:
    """The matrix unit for operands that are computed on as halves or floats; products of floats are always added in floats."""
    if unit == "half":
        return matrix_unit(ipu, "half", options.partials_type, options.weight_load_bits)
    return matrix_unit(ipu, "float", "float", options.weight_load_bits)


def computes_in(left: str, right: str) -> str:
    """Dtype of the products of two operands: the one that takes more bundles, or bits, a product."""
    return max((left, right), key=lambda dtype: (ARITHMETIC[dtype].emulation, ARITHMETIC[dtype].unit == "float", DTYPE_BITS[dtype]))


def _search(problem: Matmul, unit: MatrixUnit | None, ipu: IpuSpec, options: PlanOptions, *, at_most: int | None) -> Plan | None:
    """The cheapest split of one order of the operands, or None; `unit` None for the vector unit."""
    dtype = computes_in(problem.left, problem.right)
    how = ARITHMETIC[dtype]
    real = _COMPLEX_PRODUCTS if how.is_complex else 1
    in_grain, out_grain = (unit.in_channels, unit.units) if unit else (how.per_vector, 1)
    sizes = (problem.groups, problem.rows, ceil_div(problem.inner, in_grain), ceil_div(problem.columns, out_grain))
    # More parts of the columns only add to what is sent of a resident left operand, more rows to that of a right one.
    greedy = 3 if not problem.left_resident else 1 if not problem.right_resident else None
    cut = cuts(sizes, ipu.num_tiles, even=3, greedy=greedy)
    splits, (g, p, i, o) = cut.splits, cut.parts
    inner, columns = np.minimum(i * in_grain, problem.inner), np.minimum(o * out_grain, problem.columns)
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
    bundles = mac_bundles(dtype)

    def compute(chosen: Ints) -> Ints:
        if unit is not None:
            return real * amp_1x1(p[chosen], i[chosen], o[chosen], g[chosen], unit)
        return vector_macs(
            blocks.outputs[chosen], inner[chosen], per_vector=how.per_vector, bundles=bundles, workers=ipu.tile.worker_contexts
        )

    return cheapest(
        blocks,
        compute_at_least=real * amp_1x1_at_least(p, g * i * o, unit) if unit else blocks.outputs * (7 + i * bundles),
        compute=compute,
        types=Types(
            left=problem.left,
            right=problem.right,
            result=problem.result,
            partial_bytes=2 if unit is not None and unit.partials == "half" else max(4, DTYPE_BITS[dtype] // 8),
            padded=unit is not None and problem.inner % unit.in_channels > 0,
            regrouped=unit is not None and unit.units != unit.in_channels,
        ),
        family=FAMILY,
        method="matrix unit" if unit else "vector unit",
        names=("groups", "rows", "inner", "columns"),
        flops=problem.flops,
        ipu=ipu,
        options=options,
        at_most=at_most,
    )


def mac_bundles(dtype: str) -> int:
    """Bundles of one vector of multiply-adds: one where the unit has it, a product and a sum with a load for integers."""
    how = ARITHMETIC[dtype]
    real = _COMPLEX_PRODUCTS if how.is_complex else 1
    return (3 if how.unit == "integer" else 1) * how.emulation * real


def sent_bytes(elements: Ints, dtype: str, resident: bool, sharers: Ints) -> Ints:
    """Bytes of an operand's block that a tile receives. Of a resident one each of its `sharers` holds an equal part."""
    size_bytes = ceil_divide(elements * DTYPE_BITS[dtype], 8)
    return size_bytes - size_bytes // sharers if resident else size_bytes


def _size(array: ArrayShape, dimensions: tuple[int, ...]) -> int:
    return prod(array.dims[dimension] for dimension in dimensions)
