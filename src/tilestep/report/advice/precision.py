"""Advice on precision: float32 where half would do, and sums of halves in float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

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


class PrecisionWords(NamedTuple):
    """How a program says in which precision it computes.

    Attributes:
        is_wide: says of {label} that it computes in float32.
        products: of numbers of 16 bits.
        way_out: what to do where the precision allows.
        edit: the same for {label}.
        single, half: the names of the types.
        partials: an edit to add products up in 16 bits in {label}.
    """

    is_wide: str
    products: str
    way_out: str
    edit: str
    single: str
    half: str
    partials: str


JAX: Final = PrecisionWords(
    is_wide="{label} computes in float32",
    products="halves",
    way_out="compute in float16, and keep parameters in float32",
    edit="compute in float16 in {label}",
    single="float32",
    half="float16",
    partials="compile {label} with compiler_options={{'ipu_partials_type': 'half'}}",
)


def halves(figures: Figures, evidence: Evidence | None, words: PrecisionWords = JAX) -> Iterator[Proposal]:
    """What the program with the longest supersteps would save with float16 in the place of float32."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not any(family.family in _PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if "f32[" not in source.text():
        return
    text = (
        f"{words.is_wide.format(label=label)}. The matrix unit does at least twice as many products of {words.products} in a cycle, and "
        f"half of the bytes change tiles: where the precision allows, {words.way_out}."
    )

    def change(program: Program) -> Program:
        return replace(program, body=planned_again(source, program, machine, halves=True).body)

    way = Way(
        edit=words.edit.format(label=label),
        change=with_changed([profile.key], change),
        how="about",
        basis=f"its supersteps planned again with {words.half} for all of {words.single}",
    )
    line = evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="halves", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def partials(figures: Figures, evidence: Evidence | None, words: PrecisionWords = JAX) -> Iterator[Proposal]:
    """What the program with the longest supersteps would save with sums of halves in 16 bits."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not any(family.family in _PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if source.options.partials_type == "half" or "f16[" not in source.text():
        return
    text = (
        f"{label} adds products of {words.products} up in 32 bits, for which half of the matrix unit stands still: where the precision "
        "allows, add them up in 16 bits."
    )
    options = replace(source.options, partials_type="half")
    way = Way(
        edit=words.partials.format(label=label),
        change=with_changed([profile.key], lambda program: planned_again(source, program, machine, options=options)),
        how="replayed",
        basis="planned again",
    )
    line = evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="partials", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)
