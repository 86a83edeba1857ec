"""What all sessions' advice shares: how a PopART program says what the rules propose, and at which line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tilestep.advice import NEARLY_FULL
from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.limits import LimitWords
from tilestep.advice.longest import longest_program
from tilestep.advice.precision import PrecisionWords, partials
from tilestep.advice.proposal import Proposal, Rule
from tilestep.figures.quantities import bytes_text, share_text
from tilestep.figures.records import Figures
from tilestep.figures.scopes import parts_of, short_scope

_CALL: Final = re.compile(r"[a-z_]+\((.*)\)")  # of a scope's part: transpose(jvp(loss)), jit(step)
_STRUCTURE: Final = re.compile(r"while|body|cond|branch_\d+_fun|closed_call|shard_map|checkpoint|rematted_computation")  # of JAX's own


def operator_of(scope: str) -> str:
    """The operator of a scope, '' if there is none.

    'gradient of layer/MatMul' for 'jit(stage_1_forward_and_backward)/transpose(jvp(layer/MatMul))/dot_general'.
    """
    parts = [part for part in parts_of(scope)[:-1] if not part.startswith("jit(")]
    names = [name for part in parts for name in _bare(part).split("/") if name and not _STRUCTURE.fullmatch(name)]
    gradient = "gradient of " if names and any(part.startswith("transpose(") for part in parts) else ""
    return gradient + "/".join(names)


def operation_of(scope: str) -> str:
    """What a table calls a step of a scope: its operator, or else the end of the scope."""
    return operator_of(scope) or short_scope(scope).removeprefix("jit(_whole)/")


def _bare(part: str) -> str:
    """A part of a scope without the calls around it."""
    while found := _CALL.fullmatch(part):
        part = found[1]
    return part


_LARGER: Final = "more samples in an input, fewer and larger operators"
LIMITS: Final = LimitWords(larger=_LARGER, denser=_LARGER, memory="streaming memory", origin=operator_of)
PRECISION: Final = PrecisionWords(
    is_wide="The tensors of {label} are FLOAT",
    products="FLOAT16",
    way_out="give the model FLOAT16 inputs and weights",
    edit="FLOAT16 in place of FLOAT in {label}",
    single="FLOAT",
    half="FLOAT16",
    partials="SessionOptions.partialsTypeMatMuls = 'half'",
)


def at_line(rule: Rule, line: Line | None, *, of_operators: bool = False) -> Rule:
    """A rule whose findings are at a line of the user's program.

    Args: of_operators: whether findings are at the line of an operator where that is known.
    """

    def placed(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        for proposal in rule(figures, evidence):
            where = (proposal.finding.line if of_operators else None) or line
            yield replace(proposal, finding=replace(proposal.finding, line=where))

    return placed


def full_tiles(figures: Figures, evidence: Evidence | None, *, is_staged: bool = True) -> Iterator[Proposal]:
    """IPUs whose tiles the session's programs fill. Args: is_staged: whether the session has several stages."""
    tile_bytes = figures.machine.tile_sram_bytes
    state = "optimiser state in streaming memory (SessionOptions.optimizerStateTensorLocationSettings)"
    last = state if is_staged else "several IPUs (builder.virtualGraph)"
    for group in figures.groups:
        if group.peak_tile_bytes > NEARLY_FULL * tile_bytes:
            over = group.peak_tile_bytes > tile_bytes
            text = (
                f"The programs of IPU {group.ipu} {'do not fit: they need' if over else 'nearly fill it: they take'} "
                f"{share_text(group.peak_tile_bytes, tile_bytes)} of a tile ({bytes_text(group.peak_tile_bytes)} of "
                f"{bytes_text(tile_bytes)}). Try: a smaller microbatch, FLOAT16, recomputation (SessionOptions.autoRecomputation) in "
                f"training, or {last}."
            )
            yield Proposal(finding=Finding(kind="memory", text=text, urgent=over))


def half_partials(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Sums of FLOAT16 products, where the longest program has any: the option is about matrix products."""
    longest = longest_program(figures, evidence)
    if longest is None or not any(family.family == "matmul" for family in longest.families):
        return
    yield from partials(figures, evidence, PRECISION)
