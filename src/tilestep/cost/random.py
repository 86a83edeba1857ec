"""Random numbers: the tile's own generator, and counter-based ones made of integer operations."""

from tilestep.cost.elementwise.expression import worker_cycles
from tilestep.cost.exchange import share
from tilestep.cost.step import StepCost, nothing, step_cost
from tilestep.machine.spec import IpuSpec
from tilestep.program.work import Work
from tilestep.units import ceil_div

FAMILY = "random"
# The tile's generator gives 64 bits an instruction; store, and scaling to a range: poplibs@7eac0f26
# lib/poprand/poprandCycleEstimators.cpp has 4 bundles per 64 bits for normal numbers; taken for all distributions.
_GENERATOR_BUNDLES = 4
# Integer operations per 32-bit word: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
# Threefry-2x32-20: 20 rounds of add, rotate (3), xor, and 5 key injections of 3, for two words.
_THREE_FRY_BUNDLES = (20 * 5 + 5 * 3) // 2 + 1
# Philox-4x32-10: 10 rounds of two 32x32 -> 64 products (5 each), four xors, two key additions, for four words.
_PHILOX_BUNDLES = 10 * (2 * 5 + 4 + 2) // 4


def rng_bit_generator(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `rng-bit-generator`, by its algorithm; the state is sent to all tiles."""
    size_bytes = sum(result.size_bytes for result in work.results)
    words = {"rng_three_fry": _THREE_FRY_BUNDLES, "rng_philox": _PHILOX_BUNDLES}
    per_word = words.get(work.attributes.get("algorithm", ""))
    state = sum(operand.size_bytes for operand in work.operands)
    if per_word is None:
        return _generated(size_bytes, _GENERATOR_BUNDLES, 8, state, ipu, ("random bits come from the tile's own generator",))
    return _generated(size_bytes, per_word, 4, state, ipu, ())


def rng(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `rng`: uniform or normal numbers between or around two scalars, from the tile's own generator."""
    sentences = ("random numbers of every distribution take the tile's generator 4 bundles per 64 bits",)
    scalars = sum(operand.size_bytes for operand in work.operands)
    return _generated(work.results[0].size_bytes, _GENERATOR_BUNDLES, 8, scalars, ipu, sentences)


def rng_state(work: Work, ipu: IpuSpec) -> StepCost:
    """HLO `rng-get-and-update-state`: one tile adds to a counter of 128 bits, and sends it on."""
    return step_cost(ipu, family=FAMILY, compute_cycles=worker_cycles(8, ipu), exchange_bytes=sum(r.size_bytes for r in work.results))


def _generated(size_bytes: int, bundles: int, group_bytes: int, sent: int, ipu: IpuSpec, assumptions: tuple[str, ...]) -> StepCost:
    """`bundles` and a store for each `group_bytes` of the result, after `sent` bytes have reached every tile."""
    if size_bytes == 0:
        return nothing(FAMILY)
    groups = ceil_div(ceil_div(share(size_bytes, ipu), group_bytes), ipu.tile.worker_contexts)
    return step_cost(
        ipu,
        family=FAMILY,
        compute_cycles=worker_cycles(22 + groups * bundles, ipu),  # 22: a worker's set-up, same source
        exchange_bytes=sent,
        temporary_tile_bytes=sent,
        assumptions=assumptions,
    )
