"""Set-up apart from training: what one step takes once the system is warm, and what the way there has taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding, Gain
from tilestep.report.advice.phrases import named
from tilestep.report.advice.proposal import Proposal
from tilestep.report.figures import Figures
from tilestep.report.quantities import share_text, time_text

_DOMINATES: Final = 0.5  # of emulated time
_LEFT: Final = 0.1  # of emulated time, that set-up would take in a longer run
_MOST: Final = 1024  # times as many steps


@dataclass(frozen=True, kw_only=True)
class Steady:
    """The steady state of the program, or of the group of programs, that takes longest.

    Attributes:
        label: its name.
        key: of the program, or of one of the group.
        turns: its runs, or the entries into the group that run it.
        turn_cycles: from one to the next, once the system is warm.
        set_up_cycles: emulated time beside that: loads, first arguments, what runs before and after.
    """

    label: str
    key: int
    turns: int
    turn_cycles: int
    set_up_cycles: int


def steady_state(figures: Figures, evidence: Evidence) -> Steady | None:
    """The steady state of a profile; None if nothing ran often enough to have one."""
    longest = max((p for p in figures.programs if p.runs), key=lambda program: program.cycles.total, default=None)
    if longest is None:
        return None
    if longest.group:  # the helper that is loaded first is not what the group is for
        members = [p for p in figures.programs if p.runs and p.group == longest.group]
        longest = max(members, key=lambda program: program.cycles.total - program.cycles.load)
        starts = evidence.entries(longest.group, longest.key)
        of_key = sum(call.key == longest.key for call in evidence.dispatches)
        turns = len(starts) * longest.runs // of_key if of_key else 0
    else:
        starts = evidence.runs_of(longest.key)
        turns = longest.runs
    cycles = evidence.turn(starts)
    if cycles is None or not turns:
        return None
    set_up = max(figures.emulated_cycles - round(turns * cycles), 0)
    label = f"program group '{longest.group}'" if longest.group else figures.label(longest.key)
    return Steady(label=label, key=longest.key, turns=turns, turn_cycles=round(cycles), set_up_cycles=set_up)


def set_up(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """More of the time goes into set-up than into steps."""
    steady = None if evidence is None else steady_state(figures, evidence)
    if evidence is None or steady is None or steady.set_up_cycles < _DOMINATES * figures.emulated_cycles:
        return
    work, factor = steady.turns * steady.turn_cycles, 2
    while factor < _MOST and steady.set_up_cycles / factor > _LEFT * (work + steady.set_up_cycles / factor):
        factor *= 2
    each, whole = time_text(evidence.seconds(steady.turn_cycles)), time_text(evidence.seconds(steady.set_up_cycles))
    label = steady.label if steady.label.startswith("program group") else named(figures, evidence, steady.key)
    text = (
        f"Set-up takes {whole}, {share_text(steady.set_up_cycles, figures.emulated_cycles)} of emulated time: once warm, a run of "
        f"{label} takes {each}. With {steady.turns * factor:,} runs in place of {steady.turns:,} set-up matters little."
    )
    saved = round(steady.set_up_cycles * (1 - 1 / factor))
    gain = Gain(
        cycles=saved,
        share=saved / figures.emulated_cycles,
        seconds=evidence.seconds(saved),
        how="about",
        basis="for as many runs, in a longer program",
    )
    edit = f"run {steady.label} {steady.turns * factor:,} times in place of {steady.turns:,}"
    line = evidence.line_of_call(steady.key)
    yield Proposal(finding=Finding(kind="set-up", text=text, edit=edit, line=line, gain=gain))
