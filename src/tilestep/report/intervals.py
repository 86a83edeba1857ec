"""How sure the figures are: 80 % intervals of a profile's time and memory, by the kinds of work that take its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tilestep.cost import COLLECTIVES
from tilestep.report.figures import Figures, ProgramProfile


def shares(programs: Iterable[tuple[ProgramProfile, float]], *, dispatch_cycles: float = 0) -> dict[str, float]:
    """Kind of work -> its part of all cycles, which add up to 1: families of operations for what computes, and 'exchange', 'sync',
    'links' (between IPUs), 'host', 'load' and 'dispatch'.

    Args: programs: each with how often its cycles count. dispatch_cycles: in which an IPU waited for the host to dispatch.
    """
    spent: Counter[str] = Counter(dispatch=dispatch_cycles)  # type: ignore[arg-type]  # a Counter of floats
    for program, times in programs:
        for family in program.families:
            links = family.family in COLLECTIVES
            spent["links" if links else family.family] += family.compute * times  # type: ignore[assignment]
            spent["links" if links else "exchange"] += family.exchange * times  # type: ignore[assignment]
            spent["sync"] += family.sync * times  # type: ignore[assignment]
        spent["host"] += (program.cycles.host + program.cycles.read) * times  # type: ignore[assignment]
        spent["load"] += program.cycles.load * times  # type: ignore[assignment]
    whole = sum(spent.values())
    return {kind: cycles / whole for kind, cycles in spent.items() if cycles} if whole else {}
