"""The matrix unit's codelets for 8-bit floats, whose supervisors are compiled C++ with more bundles between blocks of weights.

Formulas: poplibs@7eac0f26 lib/poplin/PerformanceEstimation.hpp, the functions that end in Quarter, in other words. A supervisor puts
the address of the next block, waits for its workers, loads the weights and starts the workers again, at which each takes six bundles.
Sums are halves. Where a published piece falls by some cycles from one size to the next larger, the smaller is taken for both.
"""

import numpy as np

from tilestep.cost.products.matrix_unit import MatrixUnit
from tilestep.cost.splits import Ints, ceil_divide

SLIC_CHANNELS = 8  # inputs and outputs of one group of a sliding window
SLIC_LOAD_CYCLES = 32 + 6  # 256 bytes of weights, and the wait for the address that was put
_START = 6  # bundles in which a worker begins
_HALVES_ZEROED_PER_BUNDLE = 4


def amp_1x1(positions: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, unit: MatrixUnit) -> Ints:
    """Cycles of a 1x1 kernel, as `tilestep.cost.products.amp.amp_1x1`. Source: getConvPartial1x1Supervisor*Quarter."""
    most, least = ceil_divide(positions, unit.workers), np.asarray(positions) // unit.workers

    def slowest(saved: int) -> Ints:
        def worker(n: Ints) -> Ints:
            run = np.where(n > 2, 27 + unit.position_cycles * (n - 3), np.where(n == 2, 23, 18))
            return 17 + np.where(n > 0, run - saved, 4)

        return np.maximum(unit.workers * worker(most), unit.workers * worker(least) + 14)

    first = (14 + _START) * unit.workers + 11 + unit.load_cycles + slowest(5)  # reads no sums
    later = (11 + _START) * unit.workers + 6 + unit.load_cycles + slowest(0)
    return 46 + groups * (2 * unit.workers + 9 + out_blocks * (6 * unit.workers + 10 + first + (in_blocks - 1) * later))


def amp_1x1_at_least(positions: Ints, blocks: Ints, unit: MatrixUnit) -> Ints:
    """A lower bound of `amp_1x1` for so many blocks of weights, groups included: 26 bundles and the positions of each worker."""
    return blocks * (unit.load_cycles + (11 + _START + 26) * unit.workers + 6 + min(unit.position_cycles, 4) * positions)


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
    """Cycles of a kernel of `taps` elements, as `tilestep.cost.products.amp.amp_nx1`. Source: getConvPartialnx1Supervisor*Quarter.

    Each kernel element loads its weights, as the codelet does; the source counts two loads for each row of the kernel.
    """
    whole = ceil_divide(rows, unit.workers)
    each = ceil_divide(rows * row_length, unit.workers)

    def worker(elements: Ints, pieces: Ints) -> Ints:
        pieces = np.minimum(pieces, elements)
        over = elements - 3 * pieces
        return 18 + (16 + 27) * pieces + np.where(over > 0, unit.position_cycles, 4) * over

    walk = np.minimum(worker(each, whole + 1), worker(whole * row_length, whole))
    per_tap = (7 + _START) * unit.workers + 8 + unit.load_cycles + unit.workers * walk
    kernel = kernel_rows * (5 * unit.workers + 3 + 2 * unit.workers + 5) + taps * per_tap  # the first element of a row starts later
    zeroing = unit.workers * (15 + ceil_divide(rows * row_length * unit.units, unit.workers * _HALVES_ZEROED_PER_BUNDLE))
    blocks = out_blocks * (8 * unit.workers + 10 + zeroing + in_blocks * (8 * unit.workers + 13 + kernel))
    return 83 + groups * (5 * unit.workers + 7 + blocks)


def amp_nx1_at_least(positions: Ints, blocks: Ints, unit: MatrixUnit) -> Ints:
    """A lower bound of `amp_nx1` for so many blocks of weights, groups and taps included."""
    return blocks * (unit.load_cycles + (7 + _START + 18 + 31) * unit.workers + 8 + min(unit.position_cycles, 4) * positions)


def slic(rows: Ints, row_length: Ints, windows: int | Ints, blocks: Ints, stride: int, unit: MatrixUnit) -> Ints:
    """Cycles of `blocks` groups of eight channels, as `tilestep.cost.products.slic.slic`. Source: getConvPartialSlicSupervisor*Quarter."""
    each = ceil_divide(rows * row_length, unit.workers)
    whole = ceil_divide(rows, unit.workers)

    def worker(zeroing: bool) -> Ints:
        long, shortest = (3, 13) if stride > 1 else (5, 14 if zeroing else 18 + 12)

        def bundles(elements: Ints, runs: Ints) -> Ints:
            return 20 + runs * (24 + 2 * shortest) + 2 * stride * np.maximum(elements - long * runs, 0)

        return unit.workers * np.minimum(bundles(each, np.minimum(whole + 1, each)), bundles(whole * row_length, whole))

    load = _START * unit.workers + SLIC_LOAD_CYCLES
    first = load + 6 * unit.workers + 12 + worker(True)
    later = load + 5 * unit.workers + 8 + worker(False)
    return 43 + blocks * (13 * unit.workers + 15 + first + (windows - 1) * later)
