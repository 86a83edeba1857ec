"""No estimator is faster than the machine: bytes through a tile's load and store unit, products through its matrix unit.

And none minds what arrays may be like: every dtype, no element or one, far more than fit.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.cost.machines import BOW, GC2, work
from tests.unit.cost.test_laws import CASES, price
from tilestep.cost import ELEMENTWISE, estimate
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape, Work

DTYPES = [dtype for dtype, bits in DTYPE_BITS.items() if bits]
SHAPES = ("[0,3]", "[]", "[1,1]", "[1,1000]", "[1000,1000]", "[65536,65536]")
_FLOATS = frozenset({"f32", "f16", "bf16", "c64"})


def touched_bytes(job: Work) -> int:
    """Bytes that tiles load and store at least, all together."""
    if job.opcode in ("gather", "dynamic-slice"):
        return 2 * sum(result.size_bytes for result in job.results)
    if job.opcode == "dynamic-update-slice":
        return 2 * job.operands[1].size_bytes
    if job.opcode == "scatter":
        return 3 * job.operands[2].size_bytes
    return sum(array.size_bytes for array in (*job.operands, *job.results))


def retyped(job: Work, dtype: str) -> Work:
    """The same operation on floating-point arrays of another dtype."""

    def other(array: ArrayShape) -> ArrayShape:
        return replace(array, dtype=dtype) if array.dtype in _FLOATS else array

    return replace(job, operands=tuple(map(other, job.operands)), results=tuple(map(other, job.results)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ipu", [GC2, BOW], ids=["gc2", "bow"])
def test_nothing_is_faster_than_memory_and_matrix_unit(name: str, ipu: IpuSpec) -> None:
    for size in (1, 100, 4000, 30_000):
        job = CASES[name](size)
        cost = price(job, ipu)
        assert cost.compute_cycles >= touched_bytes(job) // (ipu.tile.load_store_bytes_per_cycle * ipu.num_tiles)
        assert cost.cycles >= cost.flops // (2 * ipu.macs_per_cycle_half * ipu.num_tiles)


@pytest.mark.few(30)
@pytest.mark.parametrize("name", CASES)
def test_every_dtype_is_priced(name: str) -> None:
    for dtype in DTYPES:
        assert price(retyped(CASES[name](20), dtype), BOW).cycles > 0


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("transpose", "transpose of outer", "reverse")])
def test_a_wider_type_of_the_same_kind_takes_no_less(name: str) -> None:
    # Rearrangements do: runs of 8 bytes are copied in one piece, shorter ones in several.
    job = CASES[name](300)
    for narrow, wide in (("f32", "f64"), ("f32", "c64"), ("c64", "c128"), ("s32", "s64")):
        assert price(retyped(job, narrow), BOW).cycles <= price(retyped(job, wide), BOW).cycles, (narrow, wide)


@pytest.mark.parametrize("opcode", sorted(ELEMENTWISE))
def test_elementwise_operations_take_any_dtype_and_shape(opcode: str) -> None:
    for dtype in DTYPES:
        cycles = [estimate(work(opcode, f"{dtype}{dims} {dtype}{dims}", f"{dtype}{dims}"), BOW).cycles for dims in SHAPES]
        assert cycles == sorted(cycles), dtype
        assert cycles[0] == 0 < cycles[1], dtype


@pytest.mark.parametrize("name", ["add f32", "copy", "gather rows", "scatter updates", "reduce all", "sort", "top-k", "fft", "scan", "rng"])
def test_sixty_billion_elements_take_a_million_times_longer_than_sixty_thousand(name: str) -> None:
    few, many = (price(CASES[name](size), BOW).cycles for size in (1 << 16, 1 << 36))
    assert 2**10 * few < many < 2**25 * few
