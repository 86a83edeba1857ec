"""One tile's matrix unit (AMP): what it multiplies, and how many products a cycle."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from tilestep.cost.dtypes import ARITHMETIC
from tilestep.machine.spec import IpuSpec

Precision = Literal["float8", "half", "float"]
_UNIT_WEIGHTS_BYTES = 32


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
    kernel_rows: int = 1  # rows that share a block: where channels are few, neighbouring rows take their place

    @property
    def load_cycles(self) -> int:
        """Cycles to load one block of weights; those of four rows are put together on the way, 64 bits at a time."""
        return self.units * _UNIT_WEIGHTS_BYTES * 8 // (min(self.weight_load_bits, 64) if self.kernel_rows == 4 else self.weight_load_bits)

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
        in_channels, cycles, macs = 32, 4, ipu.macs_per_cycle_float8
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
