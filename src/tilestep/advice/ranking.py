"""What findings are worth: plays the history again with the change of each, and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from tilestep.advice.evidence import Evidence, Played, Warm
from tilestep.advice.finding import ASIDE, LEARNS_OTHERWISE, LEAST_SHARE, Finding, FindingKind, Gain, Left, Other, Together
from tilestep.advice.host.set_up import Steady
from tilestep.advice.proposal import Proposal, Way
from tilestep.recording.edits.script import Script

_CLEARLY: Final = 1.1  # times as much
_WEIGHT_OF_OTHER_LEARNING: Final = 0.5  # an edit that changes what a step learns counts less
_UNEVEN_SHARE: Final = 0.2  # share of the time that an edit saves
_WAITS: Final[tuple[FindingKind, ...]] = ("reads", "idle")  # their gain depends on how far the host is ahead
_MOST_OTHERS: Final = 3  # edits beside the best one
_MOST_BEHIND: Final = 3  # findings that are worth a sentence only after others are followed
_NONE: Final[Mapping[int, float]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The findings about a profile.

    Attributes:
        findings: the most urgent first.
        together: what those save together whose edits can be played; None if they are fewer than two.
        steady: what one step takes once the system is warm; None if nothing has a steady state, or nobody knows.
    """

    findings: tuple[Finding, ...]
    together: Together | None = None
    steady: Steady | None = None


def ranked(
    proposals: Sequence[Proposal],
    evidence: Evidence | None,
    *,
    starts: Mapping[int, float] = _NONE,
    step_cycles: float | None = None,
    all: bool = False,
) -> Advice:
    """The findings, the most urgent first: what does not fit, then by gain of a warm step, else of emulated time.

    A larger batch changes what a step learns, and counts half. A finding that saves little by itself is told if it saves enough of what the
    edits of the others leave, so that the next run has no news.

    Args:
        proposals: in the order that counts among equals.
        evidence: None: gains are not worked out.
        starts: positions in the calls at which turns begin, to the steps of each; {}: nothing has steps.
        step_cycles: that a warm step is told to take; None: as long as those that are played.
        all: whether to keep findings of less than a hundredth of a step, and of emulated time.
    """
    if evidence is None:
        return Advice(
            findings=tuple(sorted((p.finding for p in proposals if not p.only_with_gain), key=lambda finding: _rank(finding, 1.0)))
        )
    played = evidence.played_for(_plays(proposals)) if any(proposal.ways for proposal in proposals) else None
    warm = None if played is None else evidence.warm(played, starts)
    warm = warm and replace(warm, told_cycles=step_cycles or warm.step_cycles)
    found: list[tuple[Finding, Way | None]] = []
    small: list[tuple[Finding, Way, float]] = []
    for proposal in proposals:
        finding, chosen = proposal.finding, None
        if proposal.only_with_gain and not proposal.ways:
            continue
        if proposal.ways and played is not None:
            ways = _by_gain(finding.kind, proposal.ways, played, warm, evidence)
            if not ways and proposal.behind_others:
                way = proposal.ways[0]
                nothing = Gain(
                    how=way.how, basis=way.basis, step_cycles=None if warm is None else 0, step_share=None if warm is None else 0.0
                )
                ways = [(way, nothing)]
            if not ways:
                continue
            (chosen, gain), *rest = ways
            others = tuple(Other(edit=way.edit, gain=gain) for way, gain in rest if all or gain.most >= LEAST_SHARE)[:_MOST_OTHERS]
            finding = replace(finding, edit=chosen.edit, gain=gain, line=chosen.line or finding.line, others=others)
        if all or _is_worth_it(finding, proposal.least_share):
            found.append((finding, chosen))
        elif chosen is not None and _is_counted(finding):
            small.append((finding, chosen, proposal.least_share))
    if any(finding.kind == "set-up" and finding.gain is not None for finding, _ in found):  # it says the same of first loads, with a figure
        found = [each for each in found if each[0].kind != "fixed"]
    found = _without_included(found)
    empty = any(
        finding.kind == "bubbles" and finding.gain is not None for finding, _ in found
    )  # a pipeline is filled before its microbatches grow
    found.sort(key=lambda each: _rank(each[0], 0.0 if empty else _WEIGHT_OF_OTHER_LEARNING))
    if played is None:
        return Advice(findings=tuple(finding for finding, _ in found))
    chain = _best_chain(found, played, evidence)
    chain, steps = _with_small(found, small, chain, played, warm, evidence)
    findings = (replace(finding, gain=_behind(number, finding.gain, chain, steps)) for number, (finding, _) in enumerate(found, 1))
    return Advice(findings=tuple(findings), together=_together(found, chain, played, warm, steps, evidence))


def _without_included(found: list[tuple[Finding, Way | None]]) -> list[tuple[Finding, Way | None]]:
    """Without findings whose edit another one's has in it: that one says both, with the smaller edit beside its own."""
    left = list(found)
    for each in found:
        finding, way = each
        place = next((n for n, (other, _) in enumerate(left) if way is not None and way.within and other.edit == way.within), None)
        if place is not None and finding.gain is not None:
            whole, of_whole = left[place]
            others = (Other(edit=finding.edit, gain=finding.gain), *whole.others)
            left[place] = replace(whole, text=f"{whole.text} {finding.text}", others=others), of_whole
            left = [one for one in left if one is not each]
    return left


def _plays(proposals: Sequence[Proposal]) -> int:
    """Replays that all ways take, each by itself and one of each finding behind the others."""
    return sum(len(proposal.ways) + bool(proposal.ways) for proposal in proposals)


def _by_gain(kind: FindingKind, ways: Iterable[Way], played: Played, warm: Warm | None, evidence: Evidence) -> list[tuple[Way, Gain]]:
    """The ways that are possible and save something, the best first.

    One that comes later has to save clearly more to be the best: rules give those first that they prefer.
    """
    gains: list[tuple[Way, Gain]] = []
    for way in ways:
        after = played.after(way.change, played.script)
        saved = 0.0 if after is None else played.cycles - _needed(after[1], _fixed(way, played, evidence), way.times)
        of_step = None if after is None or warm is None else _of_step(way, saved, played, warm)
        if max(0 if way.warm_only else saved, of_step or 0) > 0:
            gain = _gain(way, saved, of_step, played, warm, evidence)
            if kind in _WAITS and warm is not None and _is_uneven(gain, saved, of_step, warm):
                gain = replace(gain, how="about")
            gains.append((way, gain))
    of_steps = any(gain.weight >= LEAST_SHARE for _, gain in gains)  # else what they save of set-up decides
    found: list[tuple[Way, Gain]] = []
    best = 0.0
    for way, gain in gains:
        counts = gain.weight if of_steps else gain.share
        place = 0 if counts > _CLEARLY * best else len(found)
        best = max(best, counts) if place == 0 else best
        found.insert(place, (way, gain))
    return [*found[:1], *sorted(found[1:], key=lambda each: (-each[1].weight if of_steps else 0, -each[1].share))]


def _of_step(way: Way, saved: float, played: Played, warm: Warm) -> float | None:
    """Cycles that a way saves of a warm step; None if nobody knows. Args: saved: of all that is played."""
    if way.fewer_calls:
        share = played.share_saved(way.change, warm.key)
        return saved / warm.all_steps if share is None else share * warm.step_cycles
    after = warm.after(way.change)
    return None if after is None else warm.step_cycles - after.step_cycles / way.times


def _needed(cycles: int, fixed: float, times: int) -> float:
    """Cycles for as much work as before. Args: cycles: for so many times the work. fixed: those of them that fewer runs do not spare."""
    return cycles if times == 1 else fixed + max(cycles - fixed, 0) / times


def _fixed(way: Way, played: Played, evidence: Evidence) -> float:
    """Cycles of the part that is played which fewer runs do not spare: it may begin before the system is warm."""
    if not played.basis:
        return way.fixed_cycles
    return max(played.cycles - (evidence.emulated_cycles - way.fixed_cycles) / played.times, 0.0)


def _gain(way: Way, saved: float, of_step: float | None, played: Played, warm: Warm | None, evidence: Evidence) -> Gain:
    basis = "; ".join(words for words in (way.basis, played.basis) if words)
    gain = _gain_of(way.part * saved, None if of_step is None else way.part * of_step, played, warm, evidence)
    return _of_warm_step(replace(gain, how=way.how, basis=basis)) if way.warm_only else replace(gain, how=way.how, basis=basis)


def _of_warm_step(gain: Gain) -> Gain:
    """It without what is saved of all."""
    return replace(gain, cycles=0, share=0.0, seconds=0.0, warm_only=True)


def _is_uneven(gain: Gain, saved: float, of_step: float | None, warm: Warm) -> bool:
    """Whether all steps together save clearly more or less than the whole, as where the host got ahead in a load."""
    of_steps = saved if of_step is None or gain.weight < LEAST_SHARE else of_step * warm.all_steps
    return abs(of_steps - saved) > _UNEVEN_SHARE * abs(saved)


def _gain_of(saved: float, of_step: float | None, played: Played, warm: Warm | None, evidence: Evidence) -> Gain:
    cycles = max(min(round(saved * played.times), evidence.emulated_cycles), 0)
    gain = Gain(cycles=cycles, share=cycles / evidence.emulated_cycles, seconds=evidence.seconds(cycles), how="about", basis=played.basis)
    if of_step is None or warm is None:
        return gain
    step = round(min(of_step / max(warm.step_cycles, warm.told_cycles), 1.0) * warm.told_cycles)
    return replace(gain, step_cycles=step, step_share=step / warm.told_cycles, step_seconds=evidence.seconds(step))


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """Warm steps behind edits that are played one after the other.

    Attributes:
        warm: with all of them.
        saved: cycles of a step that count.
        times: as much work as before, that a step does.
        shares: of the step that the edits before it leave, that each finding's saves.
    """

    warm: Warm
    saved: float = 0.0
    times: int = 1
    shares: Mapping[int, float] = field(default_factory=dict[int, float])

    def then(self, number: int, way: Way) -> _Steps | None:
        """With the edit of one finding more; None if nobody knows."""
        after, times = self.warm.after(way.change), self.times * way.times
        if after is None or way.fewer_calls:
            return None
        before = self.warm.step_cycles / self.times
        saved = way.part * (before - after.step_cycles / times)
        return _Steps(warm=after, saved=self.saved + saved, times=times, shares={**self.shares, number: saved / before})


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """Edits that are played one after the other.

    Attributes:
        script: with all of them.
        cycles: that it takes.
        times: as much work as before, that it does.
        fixed: cycles of those that more work does not make more.
        saved: cycles that count.
        shares: of what the edits before it leave, that each finding's saves, by its number, in their order.
        left: why others are left.
    """

    script: Script
    cycles: float
    times: int = 1
    fixed: float = 0.0
    saved: float = 0.0
    shares: Mapping[int, float] = field(default_factory=dict[int, float])
    left: Mapping[int, Left] = field(default_factory=dict[int, "Left"])

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the findings whose edits they are, in their order."""
        return tuple(self.shares)

    def then(self, number: int, way: Way | None, played: Played, evidence: Evidence) -> _Chain:
        """With the edit of one finding more; as it is, with a reason, if it cannot be made with these, or saves nothing more."""
        after = None if way is None else played.after(way.change, self.script)
        if way is None or after is None:
            return replace(self, left={**self.left, number: "not played"})
        times = self.times * way.times
        fixed = max(self.fixed, _fixed(way, played, evidence)) if way.times > 1 else self.fixed
        needed = _needed(after[1], fixed, times)
        if needed >= self.cycles:
            return replace(self, left={**self.left, number: "saves nothing"})
        saved = way.part * (self.cycles - needed)
        shares = {**self.shares, number: saved / self.cycles}
        return replace(self, script=after[0], cycles=needed, times=times, fixed=fixed, saved=self.saved + saved, shares=shares)

    def steps(self, found: Sequence[tuple[Finding, Way | None]], warm: Warm) -> _Steps | None:
        """The warm steps with these edits; None if nobody knows them."""
        steps: _Steps | None = _Steps(warm=warm)
        for number in self.numbers:
            way = found[number - 1][1]
            steps = None if steps is None or way is None else steps.then(number, way)
        return steps


def _with_small(
    found: list[tuple[Finding, Way | None]],
    small: Iterable[tuple[Finding, Way, float]],
    chain: _Chain,
    played: Played,
    warm: Warm | None,
    evidence: Evidence,
) -> tuple[_Chain, _Steps | None]:
    """The chain, and warm steps with it, with findings of little gain that save enough of what the others leave.

    These are put behind those to follow in `found`.
    """
    steps = None if warm is None else chain.steps(found, warm)
    place = sum(not finding.is_aside for finding, _ in found)
    last = place + _MOST_BEHIND
    for finding, way, least_share in sorted(small, key=lambda each: not each[1].plans):  # others come after those that plan again
        if not chain.numbers or place == last:
            break
        longer = chain.then(place + 1, way, played, evidence)
        of_step = None if steps is None else steps.then(place + 1, way)
        shares = longer.shares if warm is None else _NONE if of_step is None else of_step.shares
        if place + 1 in longer.shares and shares.get(place + 1, 0.0) >= least_share:
            found.insert(place, (finding, way))
            chain, steps, place = longer, of_step, place + 1
    return chain, steps


def _behind(number: int, gain: Gain | None, chain: _Chain, steps: _Steps | None) -> Gain | None:
    """A gain with what it is after the edits before it, if that is clearly more."""
    order = chain.numbers
    if gain is None or number not in order[1:]:
        return gain
    share = 0.0 if steps is None and gain.step_share is not None else (chain if steps is None else steps).shares[number]
    if share < max(_CLEARLY * max(gain.weight, 0), LEAST_SHARE):
        return gain
    return replace(gain, after=tuple(sorted(order[: order.index(number)])), after_share=share)


def _best_chain(found: Sequence[tuple[Finding, Way | None]], played: Played, evidence: Evidence) -> _Chain:
    """The edits one after the other, those that plan again before the others, and the best first of each.

    One that cannot be made with those before, or saves nothing more, is left. So are those that plan again if the best of the others saves
    more by itself.
    """
    counted = {number: each for number, each in enumerate(found, 1) if _is_counted(each[0])}
    chain = _chain(counted, sorted(counted, key=lambda number: not _plans(counted[number])), played, evidence)
    by_gain = sorted(counted, key=lambda number: -_cycles_of(counted[number][0]))
    if by_gain and _gain_of(chain.saved, None, played, None, evidence).cycles < _cycles_of(counted[by_gain[0]][0]):
        others = _chain(counted, [number for number in by_gain if not _plans(counted[number])], played, evidence)
        beside: dict[int, Left] = {number: "saves nothing" for number in chain.numbers if _plans(counted[number])}
        return replace(others, left={**chain.left, **others.left, **beside}) if others.saved > chain.saved else chain
    return chain


def _together(
    found: Sequence[tuple[Finding, Way | None]], chain: _Chain, played: Played, warm: Warm | None, steps: _Steps | None, evidence: Evidence
) -> Together | None:
    numbers = chain.numbers
    left: dict[int, Left] = {number: why for number, why in chain.left.items() if number not in numbers}
    if len(numbers) < 2:
        return None
    lines = {found[number - 1][0].line for number in numbers} - {None}
    for number in left:
        finding, way = found[number - 1]
        left[number] = "same line" if way is not None and finding.line in lines else left[number]
    sure = all(finding.gain is not None and finding.gain.how != "about" for finding, _ in (found[number - 1] for number in numbers))
    of_step = None if steps is None else steps.saved
    if steps is None and warm is not None and all(_is_of_steps(found[number - 1][0]) for number in numbers):  # calls become fewer
        of_step = chain.saved / warm.all_steps
        of_step = of_step if of_step < warm.step_cycles else None  # some of it lies in set-up
    gain = _gain_of(chain.saved, of_step, played, warm, evidence)
    alone = [found[number - 1][0].gain for number in numbers]
    if (gain.step_cycles or 0) < max(each.step_cycles or 0 for each in alone if each is not None):
        gain = _gain_of(chain.saved, None, played, warm, evidence)  # with so few calls left, nobody knows a step
    if any(way is not None and way.warm_only for _, way in (found[number - 1] for number in numbers)):
        gain = _of_warm_step(gain)
    if gain.warm_only and gain.step_share is None:
        return None
    gain = replace(gain, how="within 2 %" if sure else "about")
    return Together(gain=gain, numbers=tuple(sorted(numbers)), left=tuple(sorted(left)), why=tuple(left[number] for number in sorted(left)))


def _chain(found: Mapping[int, tuple[Finding, Way | None]], order: Iterable[int], played: Played, evidence: Evidence) -> _Chain:
    """Edits in an order, without those that cannot be made with those before, or save nothing more."""
    chain = _Chain(script=played.script, cycles=float(played.cycles))
    for number in order:
        chain = chain.then(number, found[number][1], played, evidence)
    return chain


def _is_of_steps(finding: Finding) -> bool:
    """Whether what it saves lies in steps, and not in set-up."""
    return finding.gain is not None and (finding.gain.step_share or 0.0) >= LEAST_SHARE


def _is_counted(finding: Finding) -> bool:
    return not finding.is_aside and finding.gain is not None and not finding.gain.tile_bytes


def _plans(found: tuple[Finding, Way | None]) -> bool:
    return found[1] is not None and found[1].plans


def _cycles_of(finding: Finding) -> int:
    return 0 if finding.gain is None else finding.gain.cycles


def _is_worth_it(finding: Finding, least_share: float) -> bool:
    gain = finding.gain
    return finding.urgent or gain is None or gain.tile_bytes > 0 or gain.most >= least_share


def _rank(finding: Finding, otherwise: float) -> tuple[float, ...]:
    gain = finding.gain
    if finding.urgent:
        return 0, -gain.tile_bytes if gain is not None else 0
    if finding.is_aside:
        return ASIDE.index(finding.kind) + 3, 0
    if gain is None:
        return 2, 0
    counts = otherwise if finding.kind in LEARNS_OTHERWISE else 1.0
    return 1, -counts * (gain.weight if gain.weight >= LEAST_SHARE else 0.0), -counts * gain.share
