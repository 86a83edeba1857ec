"""Advice on weights that the host reads again and again: each time all IPUs stop for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.phrases import times_text
from tilestep.advice.proposal import Proposal, Rule, Way
from tilestep.figures.quantities import bytes_text
from tilestep.figures.records import Figures
from tilestep.recording.edits.reads import last_state_reads, state_bytes_read
from tilestep.recording.edits.script import Script


class WeightReads(NamedTuple):
    """How often the host has read the weights, and where a program asks for it last."""

    times: int
    line: Line | None


def weights(reads: WeightReads) -> Rule:
    """The rule about weights that the host reads more than once."""

    def rule(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        if evidence is None or reads.times < 2:
            return
        size = state_bytes_read(Script(calls=evidence.calls, programs=evidence.programs))
        if not size:
            return
        text = (
            f"The host reads the weights, and the optimiser's state, {times_text(reads.times)} (weightsToHost, {bytes_text(size)} each "
            "time), and the IPUs wait until it has them. Read them when the training ends, or at the calls that a checkpoint is for."
        )
        way = Way(edit="call session.weightsToHost() once, after the last session.run(...)", change=last_state_reads, how="replayed")
        yield Proposal(finding=Finding(kind="reads", text=text, line=reads.line), ways=(way,), only_with_gain=True)

    return rule
