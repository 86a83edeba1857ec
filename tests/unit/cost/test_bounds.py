"""No estimator is faster than the machine: bytes through a tile's load and store unit, products through its matrix unit.

And none minds what arrays may be like: every dtype, no element or one, far more than fit.
"""

import importlib
import pkgutil
from dataclasses import replace
from itertools import product

import jaxlib.cpu
import pytest

from tests.together import each
from tests.unit.cost.machines import BOW, GC2, work
from tests.unit.cost.test_laws import CASES, price
from tilestep.cost import COLLECTIVES, CONTROL_FLOW, ELEMENTWISE, ESTIMATORS, FREE, HOST_TRANSFERS, PLANNED, estimate
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


@each("name, ipu", product(CASES, (GC2, BOW)))
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


@each("name", [name for name in CASES if name not in ("transpose", "transpose of outer", "reverse")])
def test_a_wider_type_of_the_same_kind_takes_no_less(name: str) -> None:
    # Rearrangements do: runs of 8 bytes are copied in one piece, shorter ones in several.
    job = CASES[name](300)
    for narrow, wide in (("f32", "f64"), ("f32", "c64"), ("c64", "c128"), ("s32", "s64")):
        assert price(retyped(job, narrow), BOW).cycles <= price(retyped(job, wide), BOW).cycles, (narrow, wide)


@each("opcode", sorted(ELEMENTWISE))
def test_elementwise_operations_take_any_dtype_and_shape(opcode: str) -> None:
    for dtype in DTYPES:
        cycles = [estimate(work(opcode, f"{dtype}{dims} {dtype}{dims}", f"{dtype}{dims}"), BOW).cycles for dims in SHAPES]
        assert cycles == sorted(cycles), dtype
        assert cycles[0] == 0 < cycles[1], dtype


@pytest.mark.parametrize("name", ["add f32", "copy", "gather rows", "scatter updates", "reduce all", "sort", "top-k", "fft", "scan", "rng"])
def test_sixty_billion_elements_take_a_million_times_longer_than_sixty_thousand(name: str) -> None:
    few, many = (price(CASES[name](size), BOW).cycles for size in (1 << 16, 1 << 36))
    assert 2**10 * few < many < 2**25 * few


# What the HLO text parser of jaxlib 0.10.2 and 0.12 takes as an opcode.
_TEXT = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce all-reduce-done
all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2 atanh batch-norm-grad
batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky clamp
collective-broadcast collective-permute collective-permute-done collective-permute-start compare complex concatenate
conditional constant convert convolution copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide
domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf exp2 exponential exponential-minus-one fft floor
fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one log2 logistic map
maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id popcnt power
ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision reduce-scatter reduce-window remainder
replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt
scaled-dot scan scatter select select-and-scatter send send-done set-dimension-size shift-left
shift-right-arithmetic shift-right-logical sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk
transpose triangular-solve tuple while xor
"""
HLO_OPCODES = frozenset(_TEXT.split())
# What the clean-up of XLA:CPU's expansions puts back, which HLO has no opcode for.
RESTORED = frozenset({"erfc", "erf-inv"})


def test_every_hlo_opcode_is_priced_free_planned_or_structure() -> None:
    parts = [frozenset(ESTIMATORS), FREE, PLANNED, CONTROL_FLOW, COLLECTIVES, HOST_TRANSFERS]
    known = {opcode for part in parts for opcode in part if not opcode.startswith("custom-call:")}
    assert known == HLO_OPCODES | RESTORED


def test_no_opcode_belongs_to_two() -> None:
    parts = [frozenset(ESTIMATORS), FREE, PLANNED, CONTROL_FLOW, COLLECTIVES, HOST_TRANSFERS]
    assert sum(map(len, parts)) == len(frozenset().union(*parts))
    assert frozenset(ESTIMATORS) >= ELEMENTWISE


def test_every_custom_call_that_jaxlib_registers_on_the_cpu_is_priced_or_free() -> None:
    modules = [importlib.import_module(f"jaxlib.cpu.{found.name}") for found in pkgutil.iter_modules(jaxlib.cpu.__path__)]
    targets = {name for module in modules for name in module.registrations()}
    assert len(targets) > 50
    assert sorted(name for name in targets if f"custom-call:{name}" not in ESTIMATORS.keys() | FREE) == []
