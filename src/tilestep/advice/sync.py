"""Advice on the sync pattern: IPUs need not wait for each other's transfers with the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilestep.advice.evidence import PATTERN_PLAYS, Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.proposal import Proposal, Way
from tilestep.figures.records import Figures
from tilestep.machine.fields import SYNC_PATTERNS
from tilestep.recording.edits.script import on_machine


def sync(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The pattern in which the program is quickest, if IPUs of one program wait for each other when one of them accesses the host."""
    if evidence is None or figures.num_ipus_used < 2:
        return
    machine = evidence.machine
    text = (
        f"The sync pattern is {machine.sync_pattern}: when one IPU of a program exchanges data with the host, "
        f"{'all the others wait' if machine.sync_pattern == 'full' else 'others wait'}. In another pattern fewer do."
    )
    ways = tuple(
        Way(
            edit=f"run with --sync-pattern {pattern}",
            change=on_machine(replace(machine, sync_pattern=pattern)),  # pyrefly: ignore[bad-argument-type]
            how="replayed",
            plays=PATTERN_PLAYS,
        )
        for pattern in SYNC_PATTERNS
        if pattern != machine.sync_pattern
    )
    yield Proposal(finding=Finding(kind="sync", text=text), ways=ways, only_with_gain=True)
