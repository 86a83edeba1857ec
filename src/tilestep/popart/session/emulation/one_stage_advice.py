"""What to do about a session of one stage, in PopART's words. Findings that no PopART program can follow stay away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from tilestep.popart.session.emulation.advice_words import LIMITS, PRECISION, at_line, full_tiles, half_partials
from tilestep.popart.session.emulation.anchors_advice import Returned, anchors
from tilestep.popart.session.emulation.weights_advice import WeightReads, weights
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Line
from tilestep.report.advice.limits import fallbacks, limit
from tilestep.report.advice.loads import loads
from tilestep.report.advice.precision import halves
from tilestep.report.advice.proposal import Proposal, Rule
from tilestep.report.advice.set_up import set_up
from tilestep.report.advice.small import small
from tilestep.report.figures import Figures

_STREAMS: Final = LIMITS._replace(
    memory="host memory", waits="inputs and anchors on their way to and from the host", spare="fewer anchors, smaller inputs, FLOAT16"
)


def rules_of(returned: Iterable[Returned], line: Line | None, reads: WeightReads) -> tuple[Rule, ...]:
    """The rules for a session.

    Args: returned: of its anchors. line: of the user's program that prepared it; None if that is unknown. reads: of the weights.
    """

    def limits(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        return limit(figures, evidence, _STREAMS, line)

    def batches(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        for proposal in small(figures, evidence):  # whose code is that of a line of its own
            yield replace(proposal, finding=replace(proposal.finding, line=line or proposal.finding.line))

    rules: tuple[Rule, ...] = (
        lambda figures, evidence: full_tiles(figures, evidence, is_staged=False),
        lambda figures, evidence: halves(figures, evidence, PRECISION),
        half_partials,
        loads,
        set_up,
        limits,
        fallbacks,
    )
    return (*(at_line(rule, line, of_operators=rule is limits) for rule in rules), anchors(returned, line), weights(reads), batches)
