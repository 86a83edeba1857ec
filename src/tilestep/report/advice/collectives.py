"""Advice on exchanges between IPUs: fewer of them, or smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tilestep.plan.steps import Collective, Program, leaves
from tilestep.record.edits.programs import with_collectives
from tilestep.record.edits.script import with_changed
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding
from tilestep.report.advice.lines import line_of
from tilestep.report.advice.phrases import named
from tilestep.report.advice.proposal import Proposal, Way
from tilestep.report.figures import Figures
from tilestep.report.quantities import bytes_text, share_text

_LEAST: Final = 0.05  # of emulated time, that exchanges take
_COUNTS: Final = (2, 4, 8, 16, 32, 64)  # of steps after which gradients would be exchanged
_SUMS: Final = ("all-reduce", "reduce-scatter", "all-gather")


def collectives(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The program that spends most on sums over IPUs, as data-parallel training does."""
    if evidence is None:
        return
    spent = {p.key: sum(family.total for family in p.families if family.family in _SUMS) for p in figures.programs}
    key = max(spent, key=lambda key: spent[key], default=None)
    if key is None or spent[key] < _LEAST * figures.emulated_cycles or key not in evidence.programs:
        return
    program = evidence.programs[key]
    found = [leaf for leaf in leaves(program.body) if isinstance(leaf, Collective) and leaf.kind in _SUMS]
    largest = max(found, key=lambda leaf: leaf.size_bytes)
    label = figures.label(key)
    rest = max(figures.emulated_cycles - spent[key], 1)
    count = next((count for count in _COUNTS if spent[key] / count < _LEAST * (rest + spent[key] / count)), _COUNTS[-1])
    text = (
        f"{named(figures, evidence, key)} spends "
        f"{share_text(spent[key], figures.emulated_cycles)} of emulated time on {largest.kind} between IPUs "
        f"({bytes_text(largest.size_bytes)} in the largest): exchange gradients after several steps (gradient accumulation), or in a "
        "smaller dtype."
    )
    line = line_of(program, largest.frame)
    ways = (
        Way(
            edit=f"accumulate {count} steps in {label} before an exchange",
            change=with_changed([key], lambda program: with_collectives(program, lambda leaf: None if leaf.kind in _SUMS else leaf)),
            how="about",
            basis=f"{count - 1} of {count} exchanges spared; a larger program takes longer to load, once",
            part=(count - 1) / count,
        ),
        Way(
            edit=f"exchange float16 in {label}",
            change=with_changed([key], _halved),
            how="about",
            basis="half of the bytes",
        ),
    )
    yield Proposal(
        finding=Finding(kind="collectives", text=text, line=line or evidence.line_of_call(key)),
        ways=ways,
        only_with_gain=True,
    )


def _halved(program: Program) -> Program:
    return with_collectives(program, lambda leaf: replace(leaf, size_bytes=leaf.size_bytes // 2) if leaf.kind in _SUMS else leaf)
