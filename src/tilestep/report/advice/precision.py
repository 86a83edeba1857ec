"""Advice on precision: float32 where half would do, and sums of halves in float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tilestep.plan.steps import Program
from tilestep.record.edits.script import with_changed
from tilestep.record.sources import planned_again
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding
from tilestep.report.advice.longest import longest_program
from tilestep.report.advice.proposal import Proposal, Way
from tilestep.report.figures import Figures

_PRODUCTS: Final = ("matmul", "convolution")  # families on the matrix unit
_LEAST_SHARE: Final = 0.05  # of emulated time: precision is not given away for less


def halves(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """What the program with the longest supersteps would save with float16 in the place of float32."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not any(family.family in _PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if "f32[" not in source.text():
        return
    text = (
        f"{label} computes in float32. The matrix unit does at least twice as many products of halves in a cycle, and half of the bytes "
        "change tiles: where the precision allows, compute in float16, and keep parameters in float32."
    )

    def change(program: Program) -> Program:
        return replace(program, body=planned_again(source, program, machine, halves=True).body)

    way = Way(
        edit=f"compute in float16 in {label}",
        change=with_changed([profile.key], change),
        how="about",
        basis="its supersteps planned again with float16 for all of float32",
    )
    line = evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="halves", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def partials(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """What the program with the longest supersteps would save with sums of halves in 16 bits."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not any(family.family in _PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if source.options.partials_type == "half" or "f16[" not in source.text():
        return
    text = (
        f"{label} adds products of halves up in 32 bits, for which half of the matrix unit stands still: where the precision allows, add "
        "them up in 16 bits."
    )
    options = replace(source.options, partials_type="half")
    way = Way(
        edit=f"compile {label} with compiler_options={{'ipu_partials_type': 'half'}}",
        change=with_changed([profile.key], lambda program: planned_again(source, program, machine, options=options)),
        how="replayed",
        basis="planned again",
    )
    line = evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="partials", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)
