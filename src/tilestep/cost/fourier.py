"""Discrete Fourier transforms."""

from functools import lru_cache
from math import prod

from tilestep.cost.attributes import ints
from tilestep.cost.dtypes import F64_EMULATION, dtype_assumptions
from tilestep.cost.elementwise.expression import worker_cycles
from tilestep.cost.step import StepCost, Supersteps, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, Work
from tilestep.units import ceil_div

FAMILY = "fft"
# One radix-2 butterfly on two complex values: 10 real operations on two-float vectors (5 bundles), three loads, two stores.
_BUTTERFLY_BUNDLES = 10
_BUTTERFLY_FLOPS = 10
_ASSUMED = "Fourier transforms run as radix-2 butterflies whatever their length, lengths between powers of two in proportion to n log2 n"


def fft(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `fft`, forward, inverse, real or not: n / 2 x ceil(log2 n) butterflies per transform of n complex elements.

    Real transforms take half. A transform on k > 1 tiles has two more supersteps that exchange all of it (the two transpositions of a
    four-step transform). The cheapest k, a power of two, is taken.
    """
    lengths = ints(work.attributes, "fft_length")
    size = max(work.operands[0].size, work.results[0].size)
    if size == 0:
        return nothing(FAMILY)
    length = prod(lengths)
    dtype = work.operands[0].dtype if work.operands[0].dtype.startswith("c") else work.results[0].dtype
    is_real = not (work.operands[0].dtype.startswith("c") and work.results[0].dtype.startswith("c"))
    return _fft(ceil_div(size, length), length, dtype, is_real, ipu)


@lru_cache(maxsize=1024)
def _fft(transforms: int, length: int, dtype: str, is_real: bool, ipu: IpuSpec) -> StepCost:
    butterflies = ceil_div(length, 4 if is_real else 2) * max(1, (length - 1).bit_length())
    emulation = 2 * F64_EMULATION if dtype == "c128" else 1
    element_bytes = DTYPE_BITS[dtype] // (16 if is_real else 8)
    found: list[StepCost] = []
    tiles = 1
    while tiles <= ipu.num_tiles and tiles < 2 * length:
        own = ceil_div(transforms, ipu.num_tiles // tiles)
        own_butterflies = ceil_div(own * ceil_div(butterflies, tiles), ipu.tile.worker_contexts)
        part_bytes = own * ceil_div(length, tiles) * element_bytes
        exchanges = 2 if tiles > 1 else 0
        found.append(
            step_cost(
                ipu,
                family=FAMILY,
                compute_cycles=(1 + exchanges // 2) * worker_cycles(0, ipu)
                + ipu.tile.worker_contexts * own_butterflies * _BUTTERFLY_BUNDLES * emulation,
                exchange_bytes=exchanges * part_bytes,
                supersteps=Supersteps(count=1 + exchanges, syncs=exchanges),
                temporary_tile_bytes=part_bytes,
                flops=transforms * butterflies * _BUTTERFLY_FLOPS,
                assumptions=(_ASSUMED, *dtype_assumptions(dtype)),
            )
        )
        tiles *= 2
    return min(found, key=lambda cost: cost.cycles)
