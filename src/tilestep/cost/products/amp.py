"""Products and convolutions on one tile's matrix unit (AMP).

All functions take whole numbers or arrays of them and return cycles, candidates side by side. The formulas are those of
poplibs@7eac0f26 lib/poplin/PerformanceEstimation.hpp, written differently. Where a published figure falls from one size to the
next larger (39 bundles for two positions, 36 for three), both sizes get the smaller, so that more work never takes less time.
"""

import numpy as np

from tilestep.cost.dtypes import VECTOR_BYTES
from tilestep.cost.products import float8
from tilestep.cost.products.matrix_unit import MatrixUnit
from tilestep.cost.splits import Ints, ceil_divide

_NEXT_TAP = {1: 15, 2: 46, 4: 60}  # supervisor's cycles between two loads, by the rows of the kernel that share a block


def amp_1x1_at_least(positions: Ints, blocks: Ints, unit: MatrixUnit) -> Ints:
    """A lower bound of `amp_1x1` for so many blocks of weights, groups included: a worker takes at least so many bundles."""
    if unit.operands == "float8":
        return float8.amp_1x1_at_least(positions, blocks, unit)
    start = 22 if unit.operands == "float" else 19
    return blocks * (unit.load_cycles + start * unit.workers + unit.position_cycles * positions)


def amp_1x1(positions: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, unit: MatrixUnit) -> Ints:
    """Cycles of a 1x1 kernel: `positions` outputs for each of in_blocks x out_blocks blocks of weights, per group.

    Source: getConvPartial1x1Supervisor* there. Checked against AMP01-AMP10 of tests/unit/cost/products/test_amp.py.
    """
    if unit.operands == "float8":
        return float8.amp_1x1(positions, in_blocks, out_blocks, groups, unit)
    most, least = ceil_divide(positions, unit.workers), np.asarray(positions) // unit.workers
    saved, saved_per_block = (7, 3) if unit.saves_state else (0, 0)
    common = int(unit.saves_state or unit.partials == "float")

    def slowest(zeroing: bool) -> Ints:
        longer, shorter = _worker_1x1(most, unit, zeroing) - saved, _worker_1x1(least, unit, zeroing) - saved
        tie = 14  # the supervisor's wait when its last workers end together
        return np.maximum(unit.workers * longer, unit.workers * shorter + tie)

    loads = unit.load_cycles
    first = 11 + out_blocks * (19 - common + 7 + loads + slowest(True))
    later = (in_blocks - 1) * (16 - common + out_blocks * (19 + 6 + loads + slowest(False)))
    state = unit.workers * (saved + saved_per_block * (in_blocks * groups - 1))
    return 50 + state + groups * (12 + common + later + first)


def _worker_1x1(positions: Ints, unit: MatrixUnit, zeroing: bool) -> Ints:
    """Bundles of one worker for its positions of one block; `zeroing` if it is the first that writes the outputs."""
    n, rest = positions, unit.position_cycles * np.maximum(positions - 3, 0)
    if unit.operands == "float":
        return np.where(n > 0, 46 + rest, 24) + int(zeroing) * np.where(n > 0, 2 + 8 * n, 0)
    if unit.saves_state:
        return np.where(n >= 2, 36 + rest, np.where(n == 1, 30, 19)) + (1 if zeroing else 2)
    return np.where(n > 0, np.minimum(38 + n, 41) + rest, 24) + int(zeroing) * np.where(n > 0, 2 + 2 * n, 0)


def amp_nx1_at_least(positions: Ints, blocks: Ints, unit: MatrixUnit) -> Ints:
    """A lower bound of `amp_nx1` for so many blocks of weights, groups and taps included."""
    if unit.operands == "float8":
        return float8.amp_nx1_at_least(positions, blocks, unit)
    return blocks * (30 + unit.load_cycles + 17 * unit.workers + unit.position_cycles * positions)


def amp_nx1(
    rows: Ints,
    row_length: Ints,
    kernel_rows: int | Ints,
    taps: int | Ints,
    in_blocks: Ints,
    out_blocks: Ints,
    groups: Ints,
    unit: MatrixUnit,
) -> Ints:
    """Cycles of a kernel of `taps` elements: weights are loaded and the rows walked through once per tap.

    Args: rows: of outputs, batch included, of `row_length` each; kernel_rows: rows of the kernel that hold the taps. Where rows of the
    kernel share a block both count blocks.
    Source: getConvPartialnx1Supervisor* there, with as many rows per worker, whole or cut, as is quicker.
    """
    if unit.operands == "float8":
        return float8.amp_nx1(rows, row_length, kernel_rows, taps, in_blocks, out_blocks, groups, unit)
    whole = ceil_divide(rows, unit.workers)
    cut = _worker_nx1(ceil_divide(rows * row_length, unit.workers), whole + 1, unit)
    worker = np.minimum(cut, _worker_nx1(whole * row_length, whole, unit))
    per_tap = 15 + unit.load_cycles + _NEXT_TAP[unit.kernel_rows] + unit.workers * worker
    partials_per_bundle = VECTOR_BYTES // (4 if unit.partials == "float" else 2)
    zeroing = unit.workers * ceil_divide(rows * row_length * unit.units, unit.workers * partials_per_bundle)
    blocks = 16 + in_blocks * (14 + out_blocks * (14 + kernel_rows * 14 + taps * per_tap))
    return 109 + 19 * unit.workers + groups * (7 + out_blocks * (23 + zeroing) + blocks)


def _worker_nx1(elements: Ints, pieces: Ints, unit: MatrixUnit) -> Ints:
    """Bundles of one worker for its outputs in `pieces` runs. A run of fewer than three outputs is cheaper than one of three."""
    pieces = np.minimum(pieces, elements)
    start, short = (39, 9) if unit.operands == "float" else (28, 4)
    over = elements - 3 * pieces
    return 18 - int(unit.partials == "float") + start * pieces + np.where(over > 0, unit.position_cycles, short) * over
