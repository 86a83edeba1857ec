"""Set-up apart from training: what one step takes once the system is warm, and what the way there has taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal

from tilestep.advice.evidence import LEAST_TURNS, Evidence, Turns
from tilestep.advice.finding import Finding, Gain
from tilestep.advice.host.donation import never_new
from tilestep.advice.ipus.pipelines import steps_each
from tilestep.advice.phrases import chunks_of, group_text, is_loop, named
from tilestep.advice.proposal import Proposal
from tilestep.figures.gradients import goes_backward
from tilestep.figures.intervals import error_of
from tilestep.figures.quantities import count_text, share_text, time_text
from tilestep.figures.records import Figures, ProgramCycles, ProgramProfile
from tilestep.plan.steps import Loop, leaves
from tilestep.program.shapes import array_of
from tilestep.sim.calls import Dispatch
from tilestep.sim.trace import BESIDE, EventKind
from tilestep.units import cycles_from_seconds, seconds_from_cycles

Unit = Literal["run", "step"]
_DOMINATING_SHARE: Final = 0.5  # share of emulated time
_TARGET_SET_UP_SHARE: Final = 0.1  # share of a longer run's emulated time
_MOST_RELOADED_TURNS_SHARE: Final = 0.5  # a program that loads more often is never warm
_LEAST_SHARE_BETWEEN_STEPS: Final = 0.1  # less of a step is not worth its words
_MOST: Final = 1024  # times as many steps


@dataclass(frozen=True, kw_only=True)
class Steady:
    """The steady state of what works for longest: a program, the steps of a loop, or those of a program group.

    Attributes:
        label: its name.
        unit: what a step is of it: a run of a program, or a step of a loop or of a program group.
        key: of the program, or of one of the group.
        steps: that were done.
        step_cycles: of one, once the system is warm.
        between_share: of a step, what programs that are no part of it take between steps, with their loads; None: hardly anything.
        set_up_cycles: emulated time beside all of them: loads, first arguments, what runs before and after.
        others: whether programs are among that which ran first when steps were under way, such as an evaluation: they may come again.
        samples: of a step; None: unknown.
        low_cycles: the lower end of the 80 % interval of `step_cycles`; None: nobody knows, or wants to.
        high_cycles: the upper end.
        widest: what makes that interval as wide as it is.
        reloads: whether most steps load programs of a pipeline anew, so that none is warm: the loads are in `step_cycles`.
        starts: positions in the calls at which turns begin, to the steps of each; {} where the steps are trips of too few calls.
    """

    label: str
    unit: Unit
    key: int
    steps: int
    step_cycles: int
    set_up_cycles: int
    samples: int | None
    between_share: float | None = None
    low_cycles: int | None = None
    high_cycles: int | None = None
    widest: str = ""
    others: bool = False
    reloads: bool = False
    starts: Mapping[int, float] = field(default_factory=dict[int, float], repr=False)

    def text(self, clock_hz: float) -> str:
        """'A step takes 24.4 ms once warm, set-up 89.0 ms: 1,311 items a second. A step is a run of jit_step (32 items); 10 ran.'

        With the interval of a step: 'A step takes 24.4 ms (21.9 to 27.8; widest: elementwise rates) once warm'.
        """
        ends = [seconds_from_cycles(cycles, clock_hz) for cycles in (self.low_cycles, self.high_cycles) if cycles is not None]
        step = time_text(seconds_from_cycles(self.step_cycles, clock_hz), *ends)
        step = f"{step.removesuffix(')')}; widest: {self.widest})" if ends else step
        set_up = time_text(seconds_from_cycles(self.set_up_cycles, clock_hz))
        rate = self.items_a_second(clock_hz)
        rate = "" if rate is None else f": {rate:,.0f} items a second"
        items = "" if self.samples is None else f" ({count_text(self.samples, 'item')})"
        beside = "set-up and other programs" if self.others else "set-up"
        warm = "with the loads of its programs, which other programs evict" if self.reloads else "once warm"
        if self.between_share is not None:
            warm += f", {share_text(self.between_share, 1)} of it for other programs between steps and their loads"
        return f"A step takes {step} {warm}, {beside} {set_up}{rate}. A step is a {self.unit} of {self.label}{items}; {self.steps:,} ran."

    def items_a_second(self, clock_hz: float) -> float | None:
        """Of warm steps; None: nobody knows how many items a step has."""
        return None if self.samples is None else self.samples / seconds_from_cycles(self.step_cycles, clock_hz)

    def as_document(self, clock_hz: float) -> dict[str, object]:
        """It in the profile's JSON document."""
        return {
            "label": self.label,
            "unit": self.unit,
            "key": self.key,
            "steps": self.steps,
            "step_cycles": self.step_cycles,
            "between_share": self.between_share,
            "set_up_cycles": self.set_up_cycles,
            "samples": self.samples,
            "items_a_second": self.items_a_second(clock_hz),
            "low_cycles": self.low_cycles,
            "high_cycles": self.high_cycles,
            "widest": self.widest,
            "others": self.others,
            "reloads": self.reloads,
            "text": self.text(clock_hz),
        }


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """What works for longest, and where its turns begin in the calls: runs of a program or of a loop's chunk, or entries of a group."""

    label: str
    unit: Unit
    key: int
    members: tuple[int, ...]
    count: int
    steps: int
    starts: Mapping[int, float]
    is_pipeline: bool = False


def steady_state(figures: Figures, evidence: Evidence) -> Steady | None:
    """The steady state of a profile; None if nothing ran often enough to have one, or most of its runs load it anew."""
    turns = _turns(figures, evidence)
    if turns is None:
        return None
    half = evidence.turns(tuple(turns.starts), sums=True)
    if half is None:
        return _of_trips(figures, evidence, turns)
    reloads = max(half.loads.get(key, 0) for key in turns.members) > _MOST_RELOADED_TURNS_SHARE * half.count
    if reloads and not turns.is_pipeline:
        return None
    places = tuple(turns.starts)
    known = places.index(half.end)
    steps = sum(turns.starts[at] for at in places[known - half.count : known])
    found = _steady(figures, evidence, turns, half.cycles / steps, turns.starts, _spent(figures, half), _waited(evidence, half))
    return replace(found, reloads=reloads, between_share=None if reloads else _between(half, turns.members))


def _between(half: Turns, members: Collection[int]) -> float | None:
    """The share of other programs in some turns, with loads: a member that nothing evicts is not loaded again. None: hardly anything."""
    total = 0
    for key, totals in (half.sums or {}).items():
        if totals.cycles:
            slowest = max(totals.cycles.values(), key=_busy)
            total += slowest.get("load", 0) if key in members else _busy(slowest)
    return min(total / half.cycles, 1.0) if total > _LEAST_SHARE_BETWEEN_STEPS * half.cycles else None


def _of_trips(figures: Figures, evidence: Evidence, turns: _Turns) -> Steady | None:
    """The mean over the trips of a loop that the host calls a few times only: without loads and what the host reads."""
    if turns.steps < LEAST_TURNS * turns.count:
        return None
    members = [replace(of, cycles=replace(of.cycles, load=0, read=0)) for of in figures.programs if of.key in turns.members]
    return _steady(
        figures, evidence, turns, sum(of.cycles.total for of in members) / turns.steps, turns.starts, [(of, 1) for of in members], 0
    )


def _spent(figures: Figures, half: Turns) -> Iterator[tuple[ProgramProfile, float]]:
    """What programs have spent in some turns: their supersteps as in all runs, and what the host link took of these turns alone."""
    for program in figures.programs:
        totals = (half.sums or {}).get(program.key)
        if totals is not None and totals.cycles:
            slowest = max(totals.cycles.values(), key=_busy)
            yield replace(program, cycles=ProgramCycles.of_kinds({})), totals.runs / max(program.runs, 1)
            yield replace(program, families=(), cycles=ProgramCycles.of_kinds({**slowest})), 1


def _busy(kinds: Mapping[EventKind, int]) -> int:
    """Cycles of all kinds except those of I/O tiles beside the others."""
    return sum(cycles for kind, cycles in kinds.items() if kind not in BESIDE)


def _waited(evidence: Evidence, half: Turns) -> float:
    """Cycles of some turns in which the busiest IPU waited, as far as the host's dispatches explain it."""
    busy = Counter[int]()
    dispatches = 0
    for totals in (half.sums or {}).values():
        dispatches += totals.runs - sum(totals.runs_by_group.values())  # a member is dispatched with its group
        for ipu, kinds in totals.cycles.items():
            busy[ipu] += _busy(kinds)
    machine = evidence.machine
    each = cycles_from_seconds(machine.host.dispatch_seconds, machine.ipu.clock_hz)
    return min(max(half.cycles - max(busy.values(), default=0), 0), dispatches * each)


def _steady(
    figures: Figures,
    evidence: Evidence,
    turns: _Turns,
    cycles: float,
    starts: Mapping[int, float],
    spent: Iterable[tuple[ProgramProfile, float]],
    waited_cycles: float,
) -> Steady:
    """Args: cycles: of a step. spent, waited_cycles: what some warm steps are made of, for how sure they are."""
    error, widest = (figures.interval and error_of(spent, evidence.machine, waited_cycles=waited_cycles)) or (None, "")
    return Steady(
        label=turns.label,
        unit=turns.unit,
        key=turns.key,
        steps=turns.steps,
        step_cycles=round(cycles),
        set_up_cycles=max(figures.emulated_cycles - round(turns.steps * cycles), 0),
        samples=_samples(figures, evidence, turns),
        low_cycles=None if error is None else round(cycles / (1 + error)),
        high_cycles=None if error is None else round(cycles * (1 + error)),
        widest=widest,
        others=_came_later(evidence, turns),
        starts=starts,
    )


def _came_later(evidence: Evidence, turns: _Turns) -> bool:
    """Whether other programs ran first behind the first turn."""
    begin = next(islice(turns.starts, 1, None), len(evidence.calls))
    before, after = (
        {call.key for call in calls if isinstance(call, Dispatch)} for calls in (evidence.calls[:begin], evidence.calls[begin:])
    )
    return not after <= before | set(turns.members)


def _samples(figures: Figures, evidence: Evidence, turns: _Turns) -> int | None:
    """Of a step: as its loop says, or what is first in the shapes of all arguments that are new at each run.

    One alone may be no batch, unless all results have as many rows. Of a program over several IPUs it is the sum of their parts.
    """
    program = next(program for program in figures.programs if program.key == turns.key)
    for batch in figures.batches:
        if program.name == f"jit_{batch.loop}" and batch.microbatch is not None:
            return batch.microbatch * batch.replicas
    loop = is_loop(program.group)
    if program.group and not loop:
        return _samples_of_pipeline(figures, evidence, turns)
    again = never_new(evidence, program)
    fresh = [each for each in evidence.programs[turns.key].arguments if each.result is None and each.index not in again]
    shapes = [found.dims[loop:] for each in fresh if (found := array_of(each.shape)) is not None]
    sizes = {dims[0] for dims in shapes if dims}
    if not all(shapes) or len(sizes) != 1:
        return None
    size = sizes.pop()
    rows = [found.dims[:1] for each in evidence.programs[turns.key].results if (found := array_of(each.shape)) and len(found.dims) > 1]
    if len(shapes) < 2 and not (rows and rows == [(size,)] * len(evidence.programs[turns.key].results)):
        return None
    body = evidence.programs[turns.key].body
    loops = [node for node in body.nodes if isinstance(node, Loop) and node.trips == size]
    if loops:  # a scan goes over it: it is time, before the batch, or the steps that the scan does, if these go back from a loss
        seconds = {dims[1] if len(dims) > 1 else 0 for dims in shapes}
        scopes = (leaf.scope.partition("while/body")[2] for loop in loops for leaf in leaves(loop.body))
        size = (size if any(map(goes_backward, scopes)) else 1) * (seconds.pop() if len(seconds) == 1 else 0)
    is_whole = program.num_ipus == 1 or (size > 1 and are_parts(evidence, program, [each.index for each in fresh]))
    return size * program.num_ipus if size and is_whole else None


def _samples_of_pipeline(figures: Figures, evidence: Evidence, turns: _Turns) -> int | None:
    """Of the microbatches of a step: what is first in the shapes of all that the host gives to the group's programs at each run."""
    found: set[int] = set()
    for program in figures.programs if turns.steps else ():
        if program.key not in turns.members:
            continue
        own = [a for a in evidence.programs[program.key].arguments if a.result is None and not a.on_host]
        known = never_new(evidence, program) | {each.index for each in evidence.handed_over.get(program.key, ())}
        shapes = [array_of(a.shape) for a in own if a.index not in known]
        axes = 1 + (program.num_ipus > 1)  # the one microbatch, and a replica's IPU
        for dims in (each.dims for each in shapes if each is not None):
            rows = dims[axes] if len(dims) > axes and set(dims[:axes]) == {1} else 0
            found.add(rows * program.num_ipus * round(program.runs / turns.steps))
    return found.pop() or None if len(found) == 1 else None


def are_parts(evidence: Evidence, program: ProgramProfile, indices: Iterable[int]) -> bool:
    """Whether each IPU has had bytes of its own of some arguments: parts of arrays, not copies."""
    rows = next((call.arguments for call in reversed(evidence.dispatches) if call.key == program.key), ())
    contents = [{evidence.host_lines.contents.get(row[index], 0) for row in rows} - {0} for index in indices]
    return all(len(found) == program.num_ipus for found in contents)


def _turns(figures: Figures, evidence: Evidence) -> _Turns | None:
    ran = [program for program in figures.programs if program.runs]
    work: dict[str | int, list[ProgramProfile]] = {}
    for program in ran:
        work.setdefault(program.group or program.key, []).append(program)
    members = max(work.values(), key=lambda programs: sum(_work(program) + _loaded_again(program) for program in programs), default=None)
    if members is None:
        return None
    keys = tuple(program.key for program in members)
    longest = max(members, key=lambda program: (program.runs > 1, _work(program)))
    group = longest.group
    if is_loop(group):
        return _of_loop(evidence, group, members)
    if group:  # neither is a helper that is loaded first, or runs once, what the group is for
        entries, each = evidence.entries(group, longest.key), steps_each(evidence, group)
        of_key = sum(call.key == longest.key for call in evidence.dispatches)
        count = len(entries) * longest.runs // of_key if of_key else 0
        label, unit, starts = group_text(group), "step", dict.fromkeys(entries, each)
    else:
        each, count = 1.0, longest.runs
        label, unit, starts = figures.label(longest.key), "run", dict.fromkeys(evidence.runs_of(longest.key), each)
    if not count:
        return None
    return _Turns(
        label=label,
        unit=unit,
        key=longest.key,
        members=keys,
        count=count,
        steps=round(count * each),
        starts=starts,
        is_pipeline=bool(group),
    )


def _of_loop(evidence: Evidence, group: str, members: Sequence[ProgramProfile]) -> _Turns | None:
    """The turns of a loop of this package: its chunks, of which the last of a call may be shorter."""
    chunk, rest = chunks_of(group)
    longest = max(members, key=_work)
    members = [program for program in members if program.name == longest.name]  # without a helper that is loaded first
    own = {program.key for program in members}
    calls = [(at, call) for at, call in enumerate(evidence.calls) if isinstance(call, Dispatch) and call.key in own]
    calls = [(at, call) for at, call in calls if call.group is not None and call.group[0] == group]
    if not calls:
        return None
    last = {call.group: at for at, call in calls}
    steps = {at: float(rest if rest and at == last[call.group] else chunk) for at, call in calls}
    count = sum(program.runs for program in members)
    each = sum(steps.values()) / len(steps)
    return _Turns(
        label=group_text(group), unit="step", key=longest.key, members=tuple(own), count=count, steps=round(count * each), starts=steps
    )


def _work(program: ProgramProfile) -> int:
    """Cycles of all runs, without loads and what the host reads."""
    return program.cycles.total - program.cycles.load - program.cycles.read


def _loaded_again(program: ProgramProfile) -> int:
    """Cycles of all loads but the first: what they take comes again, as where functions take turns. Single operations are no steps."""
    return 0 if program.origin == "jax" or not program.loads else program.cycles.load * (program.loads - 1) // program.loads


def set_up(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """More of the time goes into set-up than into steps."""
    if evidence is None:
        return
    steady = steady_state(figures, evidence)
    if steady is None or steady.set_up_cycles < _DOMINATING_SHARE * figures.emulated_cycles:
        return
    work, factor = steady.steps * steady.step_cycles, 2
    while factor < _MOST and steady.set_up_cycles / factor > _TARGET_SET_UP_SHARE * (work + steady.set_up_cycles / factor):
        factor *= 2
    each, whole = time_text(evidence.seconds(steady.step_cycles)), time_text(evidence.seconds(steady.set_up_cycles))
    grouped = any(program.key == steady.key and program.group for program in figures.programs)
    label = steady.label if grouped else named(figures, evidence, steady.key)
    now = share_text(steady.set_up_cycles, figures.emulated_cycles)
    then = share_text(steady.set_up_cycles, steady.set_up_cycles + work * factor)
    steps = f"Once warm, a {steady.unit} of {label} takes {each}: over {steady.steps * factor:,} {steady.unit}s"
    if steady.others:
        text = f"Set-up and other programs took {whole}, {now} of the time. {steps} that weighs {then}, if they come no more often."
    else:
        text = f"Set-up took {whole} once, {now} of the time. {steps} set-up weighs {then}."
    saved = round(steady.set_up_cycles * (1 - 1 / factor))
    gain = Gain(
        cycles=saved,
        share=saved / figures.emulated_cycles,
        seconds=evidence.seconds(saved),
        how="about",
        basis="for as many runs, in a longer program",
    )
    yield Proposal(finding=Finding(kind="set-up", text=text, line=evidence.line_of_call(steady.key), gain=gain))
