"""What each step of a program took in all runs together, also in those whose events were not kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilestep.figures.reader.programs.compilation import CompiledProgram
from tilestep.figures.reader.programs.nodes import ProgramLeaf
from tilestep.sim.cycles.body import BodyCycles, LeafUse


@dataclass(frozen=True, kw_only=True)
class LeafTotal:
    """One step of a program over all its runs, on the slowest of its IPUs.

    Attributes:
        leaf: the step.
        executions: in all runs.
        cycles: of all of them, by kind, without waits for links.
    """

    leaf: ProgramLeaf
    executions: int
    cycles: BodyCycles


def executed(program: CompiledProgram) -> Iterator[tuple[LeafUse, int]]:
    """The priced steps of a program in order, each with its executions in all runs on the slowest of its IPUs."""
    counts = program.counts
    for use in program.cost().uses:
        yield use, use.times * (program.runs if use.site is None else counts.get(use.site, 0))


def leaf_totals(program: CompiledProgram) -> Iterator[LeafTotal]:
    """The steps of a program that ran, in order. Raises: RecordingError if its tree was not kept, or is damaged."""
    priced = (leaf for leaf in program.leaves if leaf.cycles is not None)
    for leaf, (use, executions) in zip(priced, executed(program), strict=True):
        if executions:
            yield LeafTotal(leaf=leaf, executions=executions, cycles=BodyCycles().plus(use.cycles, executions))
