"""Convolutions of few channels on the matrix unit: a window of four kernel elements slides along the rows (SLIC).

Half operands or 8-bit floats. Of halves the unit takes four input channels of one group, two of two groups or one of each of four; more
groups of one channel follow each other. Of 8-bit floats it takes eight channels of one group (float8.py). Formulas: poplibs@7eac0f26
lib/poplin/PerformanceEstimation.hpp, getConvPartialSlicSupervisor*, written differently. Where a published figure falls from one length
of row to the next larger (21 bundles for four positions, 15 for five), both get the smaller, so that more work never takes less time.
"""

import numpy as np

from tilestep.cost.products import float8
from tilestep.cost.products.matrix_unit import MatrixUnit
from tilestep.cost.splits import Ints, ceil_divide

WINDOW = 4  # kernel elements of one row that are worked on at once
# (groups side by side, channels of each, in and out)
SHAPES = ((1, 4), (2, 2), (4, 1))
WIDE_SHAPES = ((8, 1), (16, 1))  # only with 16 units and half partials
LONGEST_STRIDE = 2  # along a row


def slic_shapes(unit: MatrixUnit) -> tuple[tuple[int, int], ...]:
    """(groups, channels) that the unit takes side by side."""
    if unit.operands == "float8":
        return ((1, float8.SLIC_CHANNELS),)
    if unit.operands != "half":
        return ()
    return (*SHAPES, *WIDE_SHAPES) if unit.partials == "half" and unit.units >= 16 else SHAPES


def slic(rows: Ints, row_length: Ints, windows: int | Ints, blocks: Ints, side: int, stride: int, unit: MatrixUnit) -> Ints:
    """Cycles of `blocks` times `side` groups, each of as many channels as the unit takes.

    Args: rows: of outputs, batch included, of `row_length` each; windows: of four kernel elements; stride: along a row, 1 or 2.
    Each block loads its weights, and groups beyond four are walked through four by four from the first window on, as the codelet
    does; the source counts the loads of one block, and the first window once.
    """
    if unit.operands == "float8":
        return float8.slic(rows, row_length, windows, blocks, stride, unit)
    chains = 4 if unit.partials == "half" and unit.units >= 16 else 2
    merging = chains == 2 and unit.partials == "half"  # two outputs are merged in the end
    each = ceil_divide(rows * row_length, unit.workers)
    pieces = np.minimum(ceil_divide(rows, unit.workers) + 1, each)
    whole = ceil_divide(rows, unit.workers)

    def worker(zeroing: bool) -> Ints:
        preamble = 17 + (4 if side > 4 else 0) + (2 if merging else 0)
        start = (9 if merging else 10) + int(zeroing)
        if unit.partials == "float":
            start += 3
        long, shortest = (3, 15) if stride > 1 else (5, 15 + (3 if merging and not zeroing else 0))
        shortest -= int(unit.partials == "float")
        passes = 1 if chains == 4 else 2

        def bundles(elements: Ints, runs: Ints) -> Ints:
            over = np.maximum(elements - long * runs, 0)
            return preamble + runs * (start + passes * shortest) + passes * stride * over

        return unit.workers * np.minimum(bundles(each, pieces), bundles(whole * row_length, whole))

    load = slic_load_cycles(side, unit)
    strides = max(1, side // 4)
    body = (load + 21) * strides + _loop(strides) + 15 if side > 4 else load + (16 if merging else 20)
    per_block = (12 if merging else 15) + (8 if side > 4 else 0)
    merged = 2 + 2 * rows * row_length if merging else 0
    loops = windows * body + _loop(windows) + merged + strides * (worker(True) + (windows - 1) * worker(False))
    return (25 if merging else 28) + blocks * (per_block + loops) + _loop(blocks)


def slic_at_least(positions: Ints, windows: int | Ints, blocks: Ints, side: int, stride: int, unit: MatrixUnit) -> Ints:
    """A lower bound of `slic`: the certain work of the loads and workers of all windows."""
    passes = 1 if unit.operands == "half" and unit.partials == "half" and unit.units >= 16 else 2
    return blocks * windows * max(1, side // 4) * (slic_load_cycles(side, unit) + passes * stride * positions)


def slic_load_cycles(side: int, unit: MatrixUnit) -> int:
    """Cycles to load the weights of one window; those of several groups are put into order by the workers first."""
    if unit.operands == "float8":
        return float8.SLIC_LOAD_CYCLES
    if side == 1:
        return 18 + 16
    bundles = (12 if side == 2 else 10) + (1 if side > 4 else 0)
    return 9 + 6 + bundles * unit.workers + 6 + 16


def _loop(times: int | Ints) -> int | Ints:
    """Control code of a loop: a branch back stalls for six cycles."""
    return 6 * (times - 1) + 1
