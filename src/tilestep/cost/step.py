"""The cost of one operation on one IPU, as a record, and its composition from parts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilestep.cost.exchange import exchange_cycles
from tilestep.machine.spec import IpuSpec
from tilestep.units import Cycles


def sync_cycles(ipu: IpuSpec, *, syncs: int, supersteps: int) -> Cycles:
    """Cycles of `syncs` barriers of all tiles with the start of an exchange, and of the local start of `supersteps` supersteps.

    A superstep that exchanges nothing needs no barrier: it starts on each tile by itself.

    Source:
        poplibs@7eac0f26 lib/popops/reduction/ReductionPlan.cpp adds one barrier per exchange. The local start is a fit; see the machine's
        own sources.
    """
    return Cycles(syncs * ipu.sync_cycles + supersteps * ipu.superstep_overhead_cycles)


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Sizes from which the code of a planned step follows. Serial passes and repeated parts are one loop and count once."""

    received_bytes: tuple[int, int]  # received bytes of the left and of the right operand, by the busiest tile
    fan_in: int  # partial sums that a tile receives, over all stages
    sums_bytes: int  # bytes of these partial sums
    stages: int  # stages in which they are added up
    list_bytes: int = 0  # pointers and work lists of the vertices on one tile


@dataclass(frozen=True, kw_only=True)
class Held:
    """Where an operand lies that stays on its tiles, as a plan wants it."""

    tile_bytes: int  # on the fullest tile, in whole grains
    end: int = 0  # the tile behind the last one; the operand fills the tiles before it. 0: it begins at tile 0.


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Cycles, bytes and operations of one step. Compute, exchange and sync are added, never overlapped."""

    family: str  # the estimator: 'elementwise', 'matmul', 'reduce', ..
    compute_cycles: int  # compute cycles of the busiest tile, with its on-tile copies
    exchange_cycles: int  # until the busiest tile has received its bytes
    sync_cycles: int  # for all barriers, and the fixed cost of each superstep
    exchange_bytes: int = 0  # received by the busiest tile
    temporary_tile_bytes: int = 0  # on the fullest tile beside operands and results, while the step runs
    result_tile_elements: int = 0  # elements of the result on the fullest tile; 0: the result has an even layout
    layouts: tuple[str, ...] = ()  # one text for each operand that stays on its tiles; equal texts are equal layouts
    held: tuple[Held | None, ...] = ()  # where each operand lies that the plan has a place for
    footprint: Footprint | None = None  # sizes from which the code of a planned step follows; None for other steps
    compute_sets: int = 1  # compute sets that its code holds one after another, each with an exchange of its own
    overhead_cycles: int = 0  # the part of them that is the fixed cost
    flops: int = 0  # floating-point operations of all tiles
    assumptions: tuple[str, ...] = ()  # sentences
    fallback: bool = False  # whether it was priced without an estimator of its own

    @property
    def cycles(self) -> int:
        """Compute, exchange and sync together."""
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles


@dataclass(frozen=True, kw_only=True)
class Supersteps:
    """The supersteps of one step. Barriers: None is one if bytes are exchanged, else none."""

    count: int = 1
    syncs: int | None = None
    shared_bytes: int = 0  # the part of the exchanged bytes that the other tile of the same bus receives too


ONE_SUPERSTEP = Supersteps()


def step_cost(
    ipu: IpuSpec,
    *,
    family: str,
    compute_cycles: float = 0,
    exchange_bytes: int = 0,
    supersteps: Supersteps = ONE_SUPERSTEP,
    temporary_tile_bytes: int = 0,
    flops: int = 0,
    assumptions: tuple[str, ...] = (),
) -> StepCost:
    """A cost from its parts. The result has an even layout.

    Args:
        ipu: the IPU.
        family: the estimator.
        compute_cycles: of the busiest tile, rounded up here.
        exchange_bytes: received by the busiest tile, over all exchanges of the step.
        supersteps: that it consists of.
        temporary_tile_bytes: on the fullest tile, while the step runs.
        flops: of all tiles.
        assumptions: sentences.
    """
    barriers = int(exchange_bytes > 0) if supersteps.syncs is None else supersteps.syncs
    return StepCost(
        family=family,
        compute_cycles=math.ceil(compute_cycles),
        exchange_cycles=exchange_cycles(exchange_bytes, ipu, shared_bytes=supersteps.shared_bytes),
        sync_cycles=sync_cycles(ipu, syncs=barriers, supersteps=supersteps.count),
        exchange_bytes=exchange_bytes,
        temporary_tile_bytes=temporary_tile_bytes,
        overhead_cycles=supersteps.count * ipu.superstep_overhead_cycles,
        flops=flops,
        assumptions=assumptions,
    )


def nothing(family: str) -> StepCost:
    """The cost of an operation on no elements, which becomes no superstep."""
    return StepCost(family=family, compute_cycles=0, exchange_cycles=0, sync_cycles=0)


def together(family: str, parts: Sequence[StepCost], times: int = 1) -> StepCost:
    """One cost for several steps, one after the other, all of them so many times."""
    return StepCost(
        family=family,
        compute_cycles=times * sum(part.compute_cycles for part in parts),
        exchange_cycles=times * sum(part.exchange_cycles for part in parts),
        sync_cycles=times * sum(part.sync_cycles for part in parts),
        overhead_cycles=times * sum(part.overhead_cycles for part in parts),
        exchange_bytes=times * sum(part.exchange_bytes for part in parts),
        temporary_tile_bytes=max(part.temporary_tile_bytes for part in parts),
        result_tile_elements=parts[-1].result_tile_elements,
        flops=times * sum(part.flops for part in parts),
        assumptions=tuple(sorted({sentence for part in parts for sentence in part.assumptions})),
        fallback=any(part.fallback for part in parts),
    )
