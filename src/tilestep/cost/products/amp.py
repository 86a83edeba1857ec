"""Products and convolutions on one tile's matrix unit (AMP).

All functions take whole numbers or arrays of them and return cycles, candidates side by side. The formulas are those of
poplibs@7eac0f26 lib/poplin/PerformanceEstimation.hpp, written differently. Where a published figure falls from one size to the
next larger (39 bundles for two positions, 36 for three), both sizes get the smaller, so that more work never takes less time.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from tilestep.cost.dtypes import ARITHMETIC, VECTOR_BYTES
from tilestep.cost.products import float8
from tilestep.cost.splits import Ints, ceil_divide
from tilestep.machine.spec import IpuSpec

_BLOCK_WEIGHTS_BYTES = 32  # for each unit
_NEXT_TAP = {1: 15, 2: 46, 4: 60}  # supervisor's cycles between two loads, by the rows of the kernel that share a block

Precision = Literal["float8", "half", "float"]


@dataclass(frozen=True, kw_only=True)
class MatrixUnit:
    """One tile's matrix unit at one precision: `units` outputs of `in_channels` products each per `position_cycles`."""

    operands: Precision
    partials: Precision
    in_channels: int
    units: int
    position_cycles: int
    workers: int
    weight_load_bits: int  # per cycle
    kernel_rows: int = 1  # that share a block where channels are few: neighbouring rows take the place of channels

    @property
    def load_cycles(self) -> int:
        """Cycles to load one block of weights; those of four rows are put together on the way, 64 bits at a time."""
        return self.units * _BLOCK_WEIGHTS_BYTES * 8 // (min(self.weight_load_bits, 64) if self.kernel_rows == 4 else self.weight_load_bits)

    @property
    def saves_state(self) -> bool:
        """Whether the codelet is the one that keeps its workers' state between blocks."""
        return self.operands == "half" and (self.partials == "float" or self.units >= 16)


def takes_float8(ipu: IpuSpec, left: str, right: str) -> bool:
    """Whether the machine's matrix unit multiplies such operands as they are: 8-bit floats, of the same format or not."""
    return ipu.has_float8 and ARITHMETIC[left].float8 and ARITHMETIC[right].float8


@cache
def matrix_unit(ipu: IpuSpec, operands: Precision, partials: Precision, weight_load_bits: int = 64) -> MatrixUnit:
    """The unit of a machine: 32 8-bit floats, 16 halves or 8 floats times as many units as its multiply-adds per cycle allow.

    A Mk2 tile has 16 units. With half operands and float partials only 8 of them work, because its stores are no wider.
    A 128-bit load of weights is off by default (poplibs@7eac0f26 include/poplin/MatMul.hpp, use128BitConvUnitLoad).
    Raises: ValueError for 8-bit floats where the machine has no unit for them, or partials that are not half: it adds them up in halves
    (poplibs@7eac0f26 lib/poplin/ConvVertexType.cpp).
    """
    if operands == "float8":
        if not ipu.has_float8 or partials != "half":
            raise ValueError(f"{ipu.generation} has no matrix unit for 8-bit floats with {partials} partials")
        in_channels, cycles, macs = float8.CHANNELS, 4, ipu.macs_per_cycle_float8
    elif operands == "float":
        in_channels, cycles, macs = 8, 8, ipu.macs_per_cycle_float
    else:
        in_channels, cycles = 16, 4
        macs = ipu.macs_per_cycle_half if partials == "half" else ipu.macs_per_cycle_half_float
    units = max(1, macs * cycles // in_channels)
    return MatrixUnit(
        operands=operands,
        partials=partials,
        in_channels=in_channels,
        units=units,
        position_cycles=-(-in_channels * units // macs),
        workers=ipu.tile.worker_contexts,
        weight_load_bits=weight_load_bits,
    )


def of_rows(unit: MatrixUnit, kernel_rows: int) -> MatrixUnit:
    """The unit with so many rows of a kernel in one block, each of as many times fewer channels.

    Source: getConvUnitWeightHeight of poplibs@7eac0f26 lib/poplin/ConvModel.cpp; a load takes 4 halves or 2 floats of a row, so that 2 or 4
    rows share a block (getConvVertexAMPCandidates in ConvVertexType.cpp).
    """
    return replace(unit, kernel_rows=kernel_rows, in_channels=unit.in_channels // kernel_rows)


def amp_1x1_at_least(positions: Ints, blocks: Ints, unit: MatrixUnit) -> Ints:
    """A lower bound of `amp_1x1` for so many blocks of weights, groups included: a worker takes at least so many bundles."""
    if unit.operands == "float8":
        return float8.amp_1x1_at_least(positions, blocks, **_timing(unit))
    start = 22 if unit.operands == "float" else 19
    return blocks * (unit.load_cycles + start * unit.workers + unit.position_cycles * positions)


def amp_1x1(positions: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, unit: MatrixUnit) -> Ints:
    """Cycles of a 1x1 kernel: `positions` outputs for each of in_blocks x out_blocks blocks of weights, per group.

    Source: getConvPartial1x1Supervisor* there. Checked against AMP01-AMP10 of tests/unit/cost/products/test_amp.py.
    """
    if unit.operands == "float8":
        return float8.amp_1x1(positions, in_blocks, out_blocks, groups, **_timing(unit))
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
        return float8.amp_nx1_at_least(positions, blocks, **_timing(unit))
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
        return float8.amp_nx1(rows, row_length, kernel_rows, taps, in_blocks, out_blocks, groups, units=unit.units, **_timing(unit))
    whole = ceil_divide(rows, unit.workers)
    cut = _worker_nx1(ceil_divide(rows * row_length, unit.workers), whole + 1, unit)
    worker = np.minimum(cut, _worker_nx1(whole * row_length, whole, unit))
    per_tap = 15 + unit.load_cycles + _NEXT_TAP[unit.kernel_rows] + unit.workers * worker
    partials_per_bundle = VECTOR_BYTES // (4 if unit.partials == "float" else 2)
    zeroing = unit.workers * ceil_divide(rows * row_length * unit.units, unit.workers * partials_per_bundle)
    blocks = 16 + in_blocks * (14 + out_blocks * (14 + kernel_rows * 14 + taps * per_tap))
    return 109 + 19 * unit.workers + groups * (7 + out_blocks * (23 + zeroing) + blocks)


def _timing(unit: MatrixUnit) -> dict[str, int]:
    return {"load_cycles": unit.load_cycles, "position_cycles": unit.position_cycles, "workers": unit.workers}


def _worker_nx1(elements: Ints, pieces: Ints, unit: MatrixUnit) -> Ints:
    """Bundles of one worker for its outputs in `pieces` runs. A run of fewer than three outputs is cheaper than one of three."""
    pieces = np.minimum(pieces, elements)
    start, short = (39, 9) if unit.operands == "float" else (28, 4)
    over = elements - 3 * pieces
    return 18 - int(unit.partials == "float") + start * pieces + np.where(over > 0, unit.position_cycles, short) * over
