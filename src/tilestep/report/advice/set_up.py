"""Set-up apart from training: what one step takes once the system is warm, and what the way there has taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from tilestep.report.advice.evidence import LEAST_TURNS, Evidence
from tilestep.report.advice.finding import Finding, Gain
from tilestep.report.advice.phrases import group_text, named
from tilestep.report.advice.proposal import Proposal
from tilestep.report.figures import Figures
from tilestep.report.quantities import share_text, time_text

_DOMINATES: Final = 0.5  # of emulated time
_LEFT: Final = 0.1  # of emulated time, that set-up would take in a longer run
_RELOADS: Final = 0.5  # of the turns: a program that loads more often is never warm
_MOST: Final = 1024  # times as many steps
_NOTICED: Final = 0.99  # of set-up: edits that leave more of it do not spare any


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


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """The program, or the group of programs, that takes longest, and where its turns begin in the calls."""

    label: str
    key: int
    members: tuple[int, ...]
    count: int
    starts: tuple[int, ...]


def steady_state(figures: Figures, evidence: Evidence) -> Steady | None:
    """The steady state of a profile; None if nothing ran often enough to have one, or most of its runs load it anew."""
    turns = _turns(figures, evidence)
    half = None if turns is None else evidence.turns(turns.starts)
    if turns is None or half is None or max(half.loads.get(key, 0) for key in turns.members) > _RELOADS * half.count:
        return None
    cycles = half.cycles / half.count
    set_up = max(figures.emulated_cycles - round(turns.count * cycles), 0)
    return Steady(label=turns.label, key=turns.key, turns=turns.count, turn_cycles=round(cycles), set_up_cycles=set_up)


def _turns(figures: Figures, evidence: Evidence) -> _Turns | None:
    longest = max((p for p in figures.programs if p.runs), key=lambda program: program.cycles.total, default=None)
    if longest is None:
        return None
    if longest.group:  # neither is a helper that is loaded first, or runs once, what the group is for
        members = [p for p in figures.programs if p.runs and p.group == longest.group]
        keys = tuple(p.key for p in members)
        longest = max(members, key=lambda program: (program.runs > 1, program.cycles.total - program.cycles.load))
        starts = evidence.entries(longest.group, longest.key)
        of_key = sum(call.key == longest.key for call in evidence.dispatches)
        count = len(starts) * longest.runs // of_key if of_key else 0
    else:
        starts = evidence.runs_of(longest.key)
        keys, count = (longest.key,), longest.runs
    label = group_text(longest.group) if longest.group else figures.label(longest.key)
    return _Turns(label=label, key=longest.key, members=keys, count=count, starts=starts) if count else None


def set_up(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """More of the time goes into set-up than into steps."""
    if evidence is None:
        return
    steady = steady_state(figures, evidence)
    if steady is None:
        yield from _first_turn(figures, evidence)
        return
    if steady.set_up_cycles < _DOMINATES * figures.emulated_cycles:
        return
    work, factor = steady.turns * steady.turn_cycles, 2
    while factor < _MOST and steady.set_up_cycles / factor > _LEFT * (work + steady.set_up_cycles / factor):
        factor *= 2
    each, whole = time_text(evidence.seconds(steady.turn_cycles)), time_text(evidence.seconds(steady.set_up_cycles))
    grouped = any(program.key == steady.key and program.group for program in figures.programs)
    label = steady.label if grouped else named(figures, evidence, steady.key)
    now = share_text(steady.set_up_cycles, figures.emulated_cycles)
    then = share_text(steady.set_up_cycles, steady.set_up_cycles + work * factor)
    text = (
        f"Set-up took {whole} once, {now} of the time. Once warm, a run of {label} takes "
        f"{each}: over {steady.turns * factor:,} runs set-up weighs {then}."
    )
    saved = round(steady.set_up_cycles * (1 - 1 / factor))
    gain = Gain(
        cycles=saved,
        share=saved / figures.emulated_cycles,
        seconds=evidence.seconds(saved),
        how="about",
        basis="for as many runs, in a longer program",
    )
    finding = Finding(kind="set-up", text=text, line=evidence.line_of_call(steady.key), gain=gain)
    yield Proposal(finding=finding, edited=partial(_left, figures, steady))


def _left(figures: Figures, steady: Steady, edited: Evidence) -> str:
    """How much of set-up the edits of other findings leave; '' if all of it, or if nobody knows."""
    turns = _turns(figures, edited)
    half = None if turns is None or turns.key != steady.key else edited.turns(turns.starts)
    if turns is None or half is None:
        return ""
    left = max(edited.emulated_cycles - round(len(turns.starts) * half.cycles / half.count), 0)
    return "" if left > _NOTICED * steady.set_up_cycles else f" With the edits above, set-up takes about {time_text(edited.seconds(left))}."


def _first_turn(figures: Figures, evidence: Evidence) -> Iterator[Proposal]:
    """Too few turns to tell what one takes once warm, and the first has most of the time."""
    turns = _turns(figures, evidence)
    if turns is None or not 1 < len(turns.starts) < LEAST_TURNS:
        return
    first = evidence.until(turns.starts[1])
    if first is None:
        return
    rest = max(figures.emulated_cycles - first, 0)
    if first - rest / (turns.count - 1) < _DOMINATES * figures.emulated_cycles:
        return
    until, after = (time_text(evidence.seconds(cycles)) for cycles in (first, rest))
    others = "the other" if turns.count == 2 else f"the other {turns.count - 1}"
    text = (
        f"The first of {turns.count} runs of {turns.label}, with all before it, takes {until}, "
        f"{share_text(first, figures.emulated_cycles)} of emulated time: {others} with all behind it {after}. "
        f"With {LEAST_TURNS} runs or more a profile says what one takes once warm."
    )
    yield Proposal(finding=Finding(kind="set-up", text=text, line=evidence.line_of_call(turns.key)))
