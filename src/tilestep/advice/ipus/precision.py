"""Advice on precision: float32 where half would do, and sums of halves in float32."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.ipus.limits import PRODUCTS, longest_program
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import jit_of
from tilestep.cost.fourier import FAMILY as FFT
from tilestep.cost.linalg import FAMILY as LINEAR_ALGEBRA
from tilestep.figures.quantities import names_text
from tilestep.figures.records import Figures
from tilestep.plan.steps import Program
from tilestep.recording.edits.script import with_changed
from tilestep.recording.sources import planned_again

_NOT_IN_HALF: Final = frozenset({LINEAR_ALGEBRA, FFT})  # families that JAX refuses in float16, such as jnp.linalg.cholesky and jnp.fft.rfft
_LEAST_SHARE: Final = 0.05  # precision is not given away for less


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
    if evidence is None or profile is None or not any(family.family in PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if "f32[" not in source.text() or any(family.family in _NOT_IN_HALF for family in profile.families):
        return
    text = (
        f"{words.is_wide.format(label=label)}. The matrix unit does at least twice as many products of {words.products} in a cycle, and "
        f"half of the bytes change tiles: where the precision allows, {words.way_out}."
    )

    @functools.cache  # an edit is played several times: alone, on top of others, over the warm steps
    def planned() -> Program:
        return planned_again(source, evidence.programs[profile.key], machine, halves=True)

    way = Way(
        edit=words.edit.format(label=label),
        change=with_changed([profile.key], lambda program: replace(program, body=planned().body)),
        how="about",
        basis=f"its supersteps planned again with {words.half} for all of {words.single}",
        plans=True,
        line=jit_of(evidence.programs[profile.key]).line if words is JAX else None,
    )
    line = evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="halves", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def doubles(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """What programs would save with float32 in the place of float64, which an IPU works out in software."""
    if evidence is None:
        return
    known = [p for p in figures.programs if p.key in evidence.programs and p.key in evidence.sources]
    wide = [p for p in known if "f64[" in evidence.sources[p.key].text()]
    if not wide:
        return
    names = names_text([figures.label(p.key) for p in wide], most=3)
    machine, sources, programs = evidence.machine, evidence.sources, evidence.programs
    are = "computes" if len(wide) == 1 else "compute"
    text = f"{names} {are} in float64, which an IPU has no unit for: each operation on it is software, and its values take twice the bytes."

    @functools.cache
    def planned() -> dict[int, Program]:
        return {p.key: planned_again(sources[p.key], programs[p.key], machine, singles=True) for p in wide}

    way = Way(
        edit=f"compute in float32 in {names}",
        change=lambda script: script.with_programs(planned()),
        how="about",
        basis="planned again with float32 for all of float64",
        plans=True,
    )
    longest = max(wide, key=lambda p: p.cycles.total)
    line = evidence.line_of_call(longest.key)
    yield Proposal(finding=Finding(kind="doubles", text=text, line=line), ways=(way,), only_with_gain=True)


def partials(figures: Figures, evidence: Evidence | None, words: PrecisionWords = JAX) -> Iterator[Proposal]:
    """What the program with the longest supersteps would save with sums of halves in 16 bits."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not any(family.family in PRODUCTS for family in profile.families):
        return
    source, machine, label = evidence.sources[profile.key], evidence.machine, figures.label(profile.key)
    if source.options.partials_type == "half" or "f16[" not in source.text():
        return
    text = (
        f"{label} adds products of {words.products} up in 32 bits, for which half of the matrix unit stands still: where the precision "
        "allows, add them up in 16 bits."
    )
    options, jit = replace(source.options, partials_type="half"), jit_of(evidence.programs[profile.key])

    @functools.cache
    def planned() -> Program:
        return planned_again(source, evidence.programs[profile.key], machine, options=options)

    def change(program: Program) -> Program:
        return replace(planned(), arguments=program.arguments, results=program.results)  # others may have been donated

    way = Way(
        edit=words.partials.format(label=label),
        change=with_changed([profile.key], change),
        how="replayed",
        basis="planned again",
        plans=True,
    )
    line = jit.line if words is JAX and jit.line else evidence.line_of_call(profile.key)
    yield Proposal(finding=Finding(kind="partials", text=text, line=line), ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)
