"""What findings are worth: plays the history again with the change of each, and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tilestep.report.advice.evidence import Evidence, Played
from tilestep.report.advice.finding import ASIDE, Finding, Gain
from tilestep.report.advice.proposal import Proposal, Way

_CLEARLY: Final = 1.1  # times as much


def ranked(proposals: Sequence[Proposal], evidence: Evidence | None, *, all: bool = False) -> tuple[Finding, ...]:
    """The findings, the most urgent first: what does not fit, then by gain.

    Args:
        proposals: in the order that counts among equals.
        evidence: None: gains are not worked out.
        all: whether to keep findings of less than a hundredth of emulated time.
    """
    if evidence is None:
        return tuple(sorted((p.finding for p in proposals if not p.only_with_gain), key=lambda finding: not finding.urgent))
    asked = [proposal for proposal in proposals if proposal.ways]
    played = evidence.played_for(sum(len(proposal.ways) for proposal in asked)) if asked else None
    found: list[Finding] = []
    for proposal in proposals:
        finding = proposal.finding
        if proposal.only_with_gain and not proposal.ways:
            continue
        if proposal.ways and played is not None:
            best = _best(proposal.ways, played, evidence)
            if best is None:
                continue
            finding = replace(finding, edit=best[0].edit, gain=best[1], line=best[0].line or finding.line)
        if all or _is_worth_it(finding, proposal.least_share):
            found.append(finding)
    if any(finding.kind == "set-up" for finding in found):  # it says the same of loads, with a figure
        found = [finding for finding in found if finding.kind != "loads" or finding.gain is not None]
    return tuple(sorted(found, key=_rank))


def _best(ways: Iterable[Way], played: Played, evidence: Evidence) -> tuple[Way, Gain] | None:
    """The way that saves most, of those that are possible and save something. One that comes later has to save clearly more."""
    best: tuple[Way, Gain] | None = None
    for way in ways:
        saved = played.saved(way.change)
        if saved is None or saved <= 0:
            continue
        gain = _gain(way, saved, played, evidence)
        if best is None or gain.share > _CLEARLY * best[1].share:
            best = way, gain
    return best


def _gain(way: Way, saved: int, played: Played, evidence: Evidence) -> Gain:
    share = way.part * saved / played.cycles
    cycles = round(way.part * saved) if played.cycles == evidence.emulated_cycles else round(share * evidence.emulated_cycles)
    basis = "; ".join(words for words in (way.basis, played.basis) if words)
    return Gain(cycles=cycles, share=share, seconds=evidence.seconds(cycles), how=way.how, basis=basis)


def _is_worth_it(finding: Finding, least_share: float) -> bool:
    gain = finding.gain
    return finding.urgent or gain is None or gain.tile_bytes > 0 or gain.share >= least_share


def _rank(finding: Finding) -> tuple[int, float]:
    gain = finding.gain
    if finding.urgent or finding.kind == "memory":
        return (0, -gain.tile_bytes if gain is not None else 0) if finding.urgent else (1, 0)
    if finding.is_aside:
        return ASIDE.index(finding.kind) + 4, 0
    return (3, 0) if gain is None else (2, -gain.share)
