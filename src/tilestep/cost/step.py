"""What one operation costs on one IPU, and how its parts are put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilestep.cost.exchange import exchange_cycles
from tilestep.cost.sync import sync_cycles
from tilestep.machine.spec import IpuSpec


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What the code of a planned step is written from; serial passes and repeated parts are one loop and count once."""

    received_bytes: tuple[int, int]  # of the left and of the right operand, by the busiest tile
    fan_in: int  # partial sums that a tile receives, over all stages
    sums_bytes: int  # of them
    stages: int  # in which they are added up
    list_bytes: int = 0  # pointers and lists of work that the vertices of one tile go by


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Cycles, bytes and operations of one step; compute, exchange and sync are added, never overlapped."""

    family: str  # 'elementwise', 'matmul', 'reduce', ...
    compute_cycles: int  # of the busiest tile, on-tile copies included
    exchange_cycles: int
    sync_cycles: int  # barriers, and the fixed cost of each superstep
    exchange_bytes: int = 0  # received by the busiest tile
    temporary_tile_bytes: int = 0  # on the fullest tile beside operands and results, only while the step runs
    result_tile_elements: int = 0  # of the result, on the fullest tile; 0: spread evenly
    layouts: tuple[str, ...] = ()  # how a plan lays out the operands that stay where they are; equal texts, equal tiles
    footprint: Footprint | None = None  # of a planned step
    flops: int = 0  # of all tiles
    assumptions: tuple[str, ...] = ()  # sentences
    fallback: bool = False  # priced without an estimator of its own

    @property
    def cycles(self) -> int:
        """All of it."""
        return self.compute_cycles + self.exchange_cycles + self.sync_cycles


def step_cost(
    ipu: IpuSpec,
    *,
    family: str,
    compute_cycles: float = 0,
    exchange_bytes: int = 0,
    shared_bytes: int = 0,
    supersteps: int = 1,
    syncs: int | None = None,
    temporary_tile_bytes: int = 0,
    result_tile_elements: int = 0,
    flops: int = 0,
    assumptions: tuple[str, ...] = (),
    fallback: bool = False,
) -> StepCost:
    """A cost from its parts.

    Args:
        compute_cycles: of the busiest tile, rounded up here.
        exchange_bytes: received by the busiest tile, over all exchanges of the step.
        shared_bytes: of them, received together with the other tile of the same bus.
        supersteps: how many the step consists of.
        syncs: barriers; None means one if anything is exchanged, else none.
    """
    barriers = int(exchange_bytes > 0) if syncs is None else syncs
    return StepCost(
        family=family,
        compute_cycles=math.ceil(compute_cycles),
        exchange_cycles=exchange_cycles(exchange_bytes, ipu, shared_bytes=shared_bytes),
        sync_cycles=sync_cycles(ipu, syncs=barriers, supersteps=supersteps),
        exchange_bytes=exchange_bytes,
        temporary_tile_bytes=temporary_tile_bytes,
        result_tile_elements=result_tile_elements,
        flops=flops,
        assumptions=assumptions,
        fallback=fallback,
    )


def nothing(family: str) -> StepCost:
    """The cost of an operation on no elements: no superstep is made for it."""
    return StepCost(family=family, compute_cycles=0, exchange_cycles=0, sync_cycles=0)


def together(family: str, parts: Sequence[StepCost]) -> StepCost:
    """Steps one after the other as one cost."""
    return StepCost(
        family=family,
        compute_cycles=sum(part.compute_cycles for part in parts),
        exchange_cycles=sum(part.exchange_cycles for part in parts),
        sync_cycles=sum(part.sync_cycles for part in parts),
        exchange_bytes=sum(part.exchange_bytes for part in parts),
        temporary_tile_bytes=max(part.temporary_tile_bytes for part in parts),
        result_tile_elements=parts[-1].result_tile_elements,
        flops=sum(part.flops for part in parts),
        assumptions=tuple(sorted({sentence for part in parts for sentence in part.assumptions})),
        fallback=any(part.fallback for part in parts),
    )
