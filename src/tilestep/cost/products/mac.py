"""Products on a tile's vector unit: dot products (HMAC), multiply-adds side by side (VMAC), outer products.

All functions take whole numbers or arrays of them and return cycles, candidates side by side. The formulas are those of
poplibs@7eac0f26 lib/poplin/PerformanceEstimation.hpp, written differently. Work is spread evenly over a tile's workers. Where float
and half partials differ by a bundle, the formulas are those of float. Other dtypes take the same codelets with more bundles a
multiply-add, which is assumed.
"""

from dataclasses import dataclass

import numpy as np

from tilestep.cost.dtypes import VECTOR_BYTES, Arithmetic
from tilestep.cost.splits import Ints, ceil_divide

# Groups of a grouped convolution that a VMAC works on side by side, each with one input and one output channel.
VERTICAL_GROUPS = 4
WIDE_VERTICAL_GROUPS = (8, 16)  # only with half partials


@dataclass(frozen=True, kw_only=True)
class VectorUnit:
    """One tile's vector unit for one dtype: a vector of multiply-adds takes `bundles`."""

    per_vector: int  # elements that one bundle works on
    bundles: int
    halves: bool  # operands are halves, or become halves
    workers: int
    half_partials: bool = False

    @property
    def partials_per_bundle(self) -> int:
        """Elements of partial results that one bundle loads or stores."""
        return VECTOR_BYTES // (2 if self.half_partials else 4)


def vector_unit(how: Arithmetic, workers: int, *, half_partials: bool = False) -> VectorUnit:
    """The unit for a dtype. A product and a sum with a load make three bundles for integers, one where the unit multiplies and adds."""
    real = 4 if how.is_complex else 1
    bundles = (3 if how.unit == "integer" else 1) * how.emulation * real
    halves = how.unit == "half"
    return VectorUnit(per_vector=how.per_vector, bundles=bundles, halves=halves, workers=workers, half_partials=half_partials and halves)


def horizontal_mac(
    rows: Ints, row_length: Ints, taps: int | Ints, in_channels: Ints, out_channels: Ints, groups: Ints, unit: VectorUnit
) -> Ints:
    """Cycles of dot products over the input channels, one output and kernel element after the other (poplibs' HMAC).

    Args: rows: of outputs, batch included, of `row_length` each; taps: kernel elements.
    Source: getConvPartialHorizontalMacSupervisor*, getDenseDotProductCycles, estimateZeroSupervisorCycles there. Channels are
    padded to whole vectors. Halves with a kernel of one element take the codelet that is made for that.
    """
    positions = rows * row_length
    each = ceil_divide(positions, unit.workers)
    pieces = np.minimum(ceil_divide(rows, unit.workers) + 1, each)  # runs of one worker; its share may begin and end within a row
    product = (6 if unit.halves else 7) + unit.bundles * ceil_divide(in_channels, unit.per_vector)
    pointwise = np.asarray(taps) == 1
    short = pointwise & unit.halves
    start, per_position = np.where(short, 13, 19), np.where(short, 2, 7)
    saved = np.where(short, 15, 6 if unit.halves else 0)
    pieces = np.where(pointwise, np.minimum(each, 1), pieces)
    worker = 16 + taps * (16 - saved + start * pieces + each * (per_position + product))
    zeroing = np.where(short, 0, unit.workers * (5 + ceil_divide(each, unit.partials_per_bundle)))
    call = (65 if unit.halves else 58) - np.where(short, 10, 0) + unit.workers * (9 + saved)
    return call + groups * (38 + out_channels * (10 + unit.workers * worker + zeroing))


def horizontal_mac_at_least(positions: Ints, taps: int | Ints, in_channels: Ints, outputs: Ints, unit: VectorUnit) -> Ints:
    """A lower bound of `horizontal_mac` for so many outputs a position, groups included: the certain work of its workers."""
    product = 6 + unit.bundles * ceil_divide(in_channels, unit.per_vector)
    return outputs * (taps * positions * (2 + product) + 16 * unit.workers)


def vertical_mac(positions: Ints, kernel_rows: int | Ints, kernel_width: int, in_channels: Ints, blocks: Ints, side: int,
                 unit: VectorUnit) -> Ints:  # fmt: skip
    """Cycles of multiply-adds of `side` groups side by side, in `blocks` of so many groups (poplibs' VMAC, halves only).

    Each group has one output channel; a row of the kernel is one walk along a worker's positions.
    Source: getConvPartialVerticalMac* there. Its reduction over the workers counts positions, not channels; here they are counted.
    """
    each = ceil_divide(positions, unit.workers)
    if side > VERTICAL_GROUPS:
        halves = side // 8
        worker = (13 if halves == 1 else 25) + halves * each * kernel_rows * (7 + 15 + 3 + 3 * (kernel_width - 1))
    else:
        stored = 3 if unit.half_partials else 5
        worker = 19 - int(unit.half_partials) + each * kernel_rows * (7 + stored + 3 + 2 * (kernel_width - 1))
    zeroing = 4 + ceil_divide(positions * side, unit.partials_per_bundle)
    loads = 1 if unit.half_partials else 2
    adding = unit.workers * (10 + (7 + loads * (unit.workers - 1)) * ceil_divide(each * side, VERTICAL_GROUPS))
    return 101 + blocks * (zeroing + 32 + in_channels * (24 + unit.workers * worker) + adding)


def vertical_mac_at_least(positions: Ints, kernel_rows: int | Ints, kernel_width: int, blocks: Ints, side: int) -> Ints:
    """A lower bound of `vertical_mac`."""
    return blocks * max(1, side // 8) * positions * kernel_rows * (10 + 2 * kernel_width)


def outer_product(positions: Ints, out_channels: Ints, groups: Ints, unit: VectorUnit) -> Ints:
    """Cycles of one input channel times a kernel of one element: nothing is added up (poplibs' OUTER_PRODUCT).

    Source: getOuterProductCycleEstimate there, with output channels in groups of one vector, as its planner has them.
    """
    width = ceil_divide(positions, unit.workers)
    vectors = groups * ceil_divide(out_channels, unit.per_vector)
    each = 10 + unit.bundles * unit.per_vector * 5 // 2 if unit.halves else 10 + 2 * unit.bundles * unit.per_vector
    return unit.workers * (25 + vectors * ((10 if unit.halves else 11) + width * each))
