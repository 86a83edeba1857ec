"""Moments of a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilestep.hints import EffectiveBatch
from tilestep.sim.state.ledger import ProgramTotals
from tilestep.sim.state.residency import Group
from tilestep.sim.trace import EventKind

ByIpu = Mapping[int, Mapping[EventKind, int]]  # IPU -> kind -> cycles


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment of a simulation, with all sums up to it."""

    number: int  # number of the mark, from 1
    cycle: int  # at which all work dispatched so far has finished
    host_cycle: int  # the host's clock
    position: int  # in the trace
    dispatches: int  # so far
    dropped_events: int  # events that the trace has not kept
    programs: Mapping[int, ProgramTotals]  # the sums of each program by key, in order of first dispatch
    groups: Mapping[tuple[str, int], Group]  # the members of each program group, by (group, IPU)
    accumulated: Mapping[EffectiveBatch, int]  # steps of the loops that accumulate gradients


def cycles_between(before: Mark, after: Mark) -> ByIpu:
    """The cycles of programs between two marks."""
    total: dict[int, dict[EventKind, int]] = {}
    for key, totals in after.programs.items():
        for ipu, kinds in totals.since(before.programs.get(key)).cycles.items():
            row = total.setdefault(ipu, {})
            for kind, cycles in kinds.items():
                row[kind] = row.get(kind, 0) + cycles
    return total
