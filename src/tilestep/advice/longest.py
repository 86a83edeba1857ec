"""The program with the longest supersteps, of those that can be planned again."""

from __future__ import annotations

from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.figures.records import Figures, ProgramProfile

MOST_TEXT: Final = 400_000  # characters of the HLO of a program that is planned again for advice: a second of planning
PRODUCTS: Final = ("matmul", "convolution")  # families on the matrix unit


def superstep_cycles(program: ProgramProfile) -> int:
    """Cycles of all runs in supersteps, collectives and calls of the host."""
    return sum(family.total for family in program.families)


def longest_program(figures: Figures, evidence: Evidence | None) -> ProgramProfile | None:
    """The program with the longest supersteps; None if that is JAX's own, or its HLO was not kept or is long."""
    longest = max(figures.programs, key=superstep_cycles, default=None)
    if evidence is None or longest is None or longest.origin == "jax" or longest.key not in evidence.programs:
        return None
    source = evidence.sources.get(longest.key)
    return longest if source is not None and 0 < len(source.text()) <= MOST_TEXT else None
