"""The matrix unit's codelets for 8-bit floats, whose supervisors are compiled C++ with more bundles between blocks of weights.

Formulas: poplibs@7eac0f26 lib/poplin/PerformanceEstimation.hpp, the functions that end in Quarter, in other words. A supervisor puts
the address of the next block, waits for its workers, loads the weights and starts the workers again, at which each takes six bundles.
Sums are halves. Where a published piece falls by some cycles from one size to the next larger, the smaller is taken for both.
"""

import numpy as np

from tilestep.cost.splits import Ints, ceil_divide

CHANNELS = 32  # inputs of one block of weights, one byte each
SLIC_CHANNELS = 8  # inputs and outputs of one group of a sliding window
SLIC_LOAD_CYCLES = 32 + 6  # 256 bytes of weights, and the wait for the address that was put
_START = 6  # bundles in which a worker begins
_HALVES_ZEROED_PER_BUNDLE = 4


def amp_1x1(
    positions: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, *, load_cycles: int, position_cycles: int, workers: int
) -> Ints:
    """Cycles of a 1x1 kernel, as `tilestep.cost.products.amp.amp_1x1`. Source: getConvPartial1x1Supervisor*Quarter."""
    most, least = ceil_divide(positions, workers), np.asarray(positions) // workers

    def slowest(saved: int) -> Ints:
        def worker(n: Ints) -> Ints:
            run = np.where(n > 2, 27 + position_cycles * (n - 3), np.where(n == 2, 23, 18))
            return 17 + np.where(n > 0, run - saved, 4)

        return np.maximum(workers * worker(most), workers * worker(least) + 14)

    first = (14 + _START) * workers + 11 + load_cycles + slowest(5)  # reads no sums
    later = (11 + _START) * workers + 6 + load_cycles + slowest(0)
    return 46 + groups * (2 * workers + 9 + out_blocks * (6 * workers + 10 + first + (in_blocks - 1) * later))


def amp_1x1_at_least(positions: Ints, blocks: Ints, *, load_cycles: int, position_cycles: int, workers: int) -> Ints:
    """A lower bound of `amp_1x1` for so many blocks of weights, groups included: 26 bundles and the positions of each worker."""
    return blocks * (load_cycles + (11 + _START + 26) * workers + 6 + min(position_cycles, 4) * positions)


def amp_nx1(
    rows: Ints,
    row_length: Ints,
    kernel_rows: int | Ints,
    taps: int | Ints,
    in_blocks: Ints,
    out_blocks: Ints,
    groups: Ints,
    *,
    units: int,
    load_cycles: int,
    position_cycles: int,
    workers: int,
) -> Ints:
    """Cycles of a kernel of `taps` elements, as `tilestep.cost.products.amp.amp_nx1`. Source: getConvPartialnx1Supervisor*Quarter.

    Each kernel element loads its weights, as the codelet does; the source counts two loads for each row of the kernel.
    """
    whole = ceil_divide(rows, workers)
    each = ceil_divide(rows * row_length, workers)

    def worker(elements: Ints, pieces: Ints) -> Ints:
        pieces = np.minimum(pieces, elements)
        over = elements - 3 * pieces
        return 18 + (16 + 27) * pieces + np.where(over > 0, position_cycles, 4) * over

    walk = np.minimum(worker(each, whole + 1), worker(whole * row_length, whole))
    per_tap = (7 + _START) * workers + 8 + load_cycles + workers * walk
    kernel = kernel_rows * (5 * workers + 3 + 2 * workers + 5) + taps * per_tap  # the first element of a row starts later
    zeroing = workers * (15 + ceil_divide(rows * row_length * units, workers * _HALVES_ZEROED_PER_BUNDLE))
    blocks = out_blocks * (8 * workers + 10 + zeroing + in_blocks * (8 * workers + 13 + kernel))
    return 83 + groups * (5 * workers + 7 + blocks)


def amp_nx1_at_least(positions: Ints, blocks: Ints, *, load_cycles: int, position_cycles: int, workers: int) -> Ints:
    """A lower bound of `amp_nx1` for so many blocks of weights, groups and taps included."""
    return blocks * (load_cycles + (7 + _START + 18 + 31) * workers + 8 + min(position_cycles, 4) * positions)


def slic(rows: Ints, row_length: Ints, windows: int | Ints, blocks: Ints, stride: int, *, workers: int) -> Ints:
    """Cycles of `blocks` groups of eight channels, as `tilestep.cost.products.slic.slic`. Source: getConvPartialSlicSupervisor*Quarter."""
    each = ceil_divide(rows * row_length, workers)
    whole = ceil_divide(rows, workers)

    def worker(zeroing: bool) -> Ints:
        long, shortest = (3, 13) if stride > 1 else (5, 14 if zeroing else 18 + 12)

        def bundles(elements: Ints, runs: Ints) -> Ints:
            return 20 + runs * (24 + 2 * shortest) + 2 * stride * np.maximum(elements - long * runs, 0)

        return workers * np.minimum(bundles(each, np.minimum(whole + 1, each)), bundles(whole * row_length, whole))

    load = _START * workers + SLIC_LOAD_CYCLES
    first = load + 6 * workers + 12 + worker(True)
    later = load + 5 * workers + 8 + worker(False)
    return 43 + blocks * (13 * workers + 15 + first + (windows - 1) * later)
