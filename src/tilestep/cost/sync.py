"""Barriers and the fixed cost of supersteps."""

from __future__ import annotations

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
