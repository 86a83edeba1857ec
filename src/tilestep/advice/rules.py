"""All rules of the advice, and the findings that they lead to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.host.donation import donation, repeated
from tilestep.advice.host.loads import loads
from tilestep.advice.host.reads import idle, reads, results
from tilestep.advice.host.set_up import set_up, steady_state
from tilestep.advice.host.small_steps import short_calls, small
from tilestep.advice.host.streaming import feeds, streaming
from tilestep.advice.ipus.collectives import collectives
from tilestep.advice.ipus.limits import fallbacks, interpreted, limit, unused
from tilestep.advice.ipus.pipelines import bubbles, unbalanced
from tilestep.advice.ipus.precision import doubles, halves, partials
from tilestep.advice.memory.full_tiles import memory
from tilestep.advice.memory.offload import offload
from tilestep.advice.memory.remedies import refused
from tilestep.advice.proposal import Rule
from tilestep.advice.ranking import Advice, ranked
from tilestep.advice.tensorflow_words import in_tensorflow_words, of_tensorflow
from tilestep.figures.records import Figures
from tilestep.recording.source_lines import each_read_once

RULES: Final[tuple[Rule, ...]] = (
    refused,
    memory,
    idle,
    short_calls,
    loads,
    donation,
    repeated,
    results,
    reads,
    streaming,
    feeds,
    offload,
    unbalanced,
    bubbles,
    collectives,
    small,
    doubles,
    partials,
    halves,
    set_up,
    limit,
    unused,
    interpreted,
    fallbacks,
)
"""In the order of their findings where gains are not worked out."""


def evidence_of(figures: Figures) -> Evidence | None:
    """The evidence of a profile; None if its history was not kept, or is empty."""
    history = figures.history
    if history is None or not len(history.calls) or not figures.emulated_cycles:
        return None
    runs = sum(program.runs for program in figures.programs)
    return Evidence(history, figures.sources, emulated_cycles=figures.emulated_cycles, runs=runs)


def advice(figures: Figures, *, all: bool = False, evidence: Evidence | None = None, rules: Sequence[Rule] = RULES) -> Advice:
    """What to do about a profile, the most urgent first, and what that saves together.

    What does not fit comes first, then what saves most. The gains are worked out by playing the history of the profile again, if it has
    one; else waste of time comes first, then the limits of the largest program. IPUs that nothing used come late, because most programs
    are for one.

    Args:
        figures: the profile.
        all: whether to give findings that save less than a hundredth of emulated time as well.
        evidence: of the profile, if it has been made.
        rules: that look for them.
    """
    evidence = evidence or evidence_of(figures)
    steady = None if evidence is None else steady_state(figures, evidence)  # its turns are played once for all who ask
    with each_read_once():
        proposals = [proposal for rule in rules for proposal in rule(figures, evidence)]
        if of_tensorflow(figures):
            proposals = list(in_tensorflow_words(proposals))
        found = ranked(
            proposals,
            evidence,
            starts={} if steady is None else steady.starts,
            step_cycles=None if steady is None else steady.step_cycles,
            all=all,
        )
    return replace(found, steady=steady)


def findings(
    figures: Figures, *, all: bool = False, evidence: Evidence | None = None, rules: Sequence[Rule] = RULES
) -> tuple[Finding, ...]:
    """The findings of `advice`."""
    return advice(figures, all=all, evidence=evidence, rules=rules).findings
