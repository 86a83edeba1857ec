"""What each step of a program took in all runs together, also in those whose events were not kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilestep.figures.reader.compilation import CompiledProgram
from tilestep.figures.reader.layout import summed
from tilestep.figures.reader.programs import ProgramLeaf
from tilestep.recording.tables import Tables
from tilestep.sim.body import BodyCycles, Site


@dataclass(frozen=True, kw_only=True)
class LeafTotal:
    """One step of a program over all its runs, on the first of its IPUs.

    Attributes:
        leaf: the step.
        executions: in all runs.
        cycles: of all of them, by kind, without waits for links.
    """

    leaf: ProgramLeaf
    executions: int
    cycles: BodyCycles


def leaf_totals(tables: Tables, program: CompiledProgram) -> Iterator[LeafTotal]:
    """The steps of a program that ran, in order. Raises: RecordingError if its tree was not kept, or is damaged."""
    counts = site_counts(tables, program)
    fixed: dict[int, int] = {laid.leaf.leaf: laid.times for laid in summed(program.tree, {}, cycles=_one)}
    counted: dict[int, int] = {laid.leaf.leaf: laid.times for laid in summed(program.tree, counts, cycles=_one)}
    for leaf in program.leaves:
        always = fixed.get(leaf.leaf, 0)
        executions = always * program.runs if always else counted.get(leaf.leaf, 0)
        if executions and leaf.cycles is not None:
            yield LeafTotal(leaf=leaf, executions=executions, cycles=BodyCycles().plus(leaf.cycles, executions))


def _one(leaf: ProgramLeaf) -> int:
    del leaf
    return 1


def site_counts(tables: Tables, program: CompiledProgram) -> dict[Site, int]:
    """(site, arm) -> times in all runs of a program, on the first of its IPUs."""
    if not tables.has("trips"):
        return {}
    rows = program.first_trips
    counts: dict[Site, int] = {}
    sites, arms, times = (tables.column("trips", name)[rows].tolist() for name in ("site", "arm", "times"))
    for site, arm, count in zip(sites, arms, times, strict=True):
        counts[site, arm] = counts.get((site, arm), 0) + max(0, count)
    return counts
