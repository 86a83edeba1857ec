"""Advice on short calls: programs whose calls take longer than their work, so that a loop on the IPU does several in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.longest import superstep_cycles
from tilestep.advice.phrases import times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.streaming import fresh_arguments, longest_streaming
from tilestep.figures.quantities import time_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.plan.steps import Program
from tilestep.recording.edits.looped import in_loops
from tilestep.recording.edits.reads import read_at_the_end
from tilestep.recording.edits.relocate import LOOP_STEPS
from tilestep.recording.edits.script import in_turn
from tilestep.sim.calls import Dispatch, Read, Wait
from tilestep.units import ceil_div

_LEAST_RUNS: Final = 16
_LONG: Final = 1e-3  # emulated seconds from one call to the next: what is in between is more than a call
_WORK: Final = 0.25  # of a call's time: below that it is short
_BYTES: Final = 0.25  # of a call's time, that its bytes need, latency aside: above that they are to be fewer
_BESIDE: Final = 0.1  # of the calls may have another program behind them
_ROOM: Final = 0.5  # of the memory that the program leaves, that the arguments of all calls may take
_LEAST_SHARE: Final = 0.05  # of emulated time


def short_calls(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's program with most short calls behind each other. One that streams much, or an IPU that waits, is told elsewhere."""
    if evidence is None or figures.idle_cycles * 2 > figures.emulated_cycles:
        return
    known = [p for p in figures.programs if p.origin == "user" and p.runs >= _LEAST_RUNS and p.key in evidence.programs]
    profile = max(known, key=lambda p: p.runs, default=None)
    streamed = longest_streaming(figures, evidence, "user")
    if profile is None or (streamed is not None and streamed[0].key == profile.key):
        return
    program, starts = evidence.programs[profile.key], evidence.runs_of(profile.key)
    turns, work = evidence.turns(starts), superstep_cycles(profile) / profile.runs
    if turns is None or evidence.seconds(turn := turns.cycles / turns.count) > _LONG:
        return
    without_reads = turn - profile.cycles.read / profile.runs  # of which `reads` tells
    if work > _WORK * without_reads or _of_bytes(evidence, profile) > _BYTES * without_reads:
        return
    if not _follow_each_other(evidence, profile.key):
        return
    fresh = [argument.index for argument in fresh_arguments(profile, program, evidence)]
    states = _states(evidence, profile.key)
    times = _times(figures, profile, program, fresh)
    if times < 2:
        return
    label = figures.label(profile.key)
    each, own = time_text(evidence.seconds(turn)), time_text(evidence.seconds(work))
    text = (
        f"{label} ran {times_text(profile.runs)}. From one run to the next it takes {each}, of which it works for {own}; the rest is each "
        "call's own, such as its transfers: do several in one call, with a loop on the IPU (lax.scan, or repeat of tilestep.train)."
    )
    loop = in_loops(profile.key, times, evidence.machine, fresh=fresh, states=set(states.values()))
    edit = f"loop over {times} calls of {label} on the IPU (lax.scan)"
    if _is_watched(evidence, profile.key):
        edit, loop = f"{edit}, and read results after it", in_turn(read_at_the_end, loop)
    way = Way(edit=edit, change=loop, how="about", basis="played as one program with a loop", fewer_calls=True)
    finding = Finding(kind="calls", text=text, line=evidence.line_of_call(profile.key))
    yield Proposal(finding=finding, ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def _of_bytes(evidence: Evidence, profile: ProgramProfile) -> int:
    """Cycles that a call's bytes take on the host link."""
    return evidence.machine.host_cycles(to_ipus=profile.host_bytes_in, to_host=profile.host_bytes_out)


def _follow_each_other(evidence: Evidence, key: int) -> bool:
    """Whether the program's calls mostly have no other program between them."""
    calls = evidence.dispatches
    own = sum(call.key == key for call in calls)
    return sum(one.key == key != other.key for one, other in pairwise(calls)) <= _BESIDE * own


def _is_watched(evidence: Evidence, key: int) -> bool:
    """Whether the host waits for results, or reads them, between the calls."""
    last = max(index for index, call in enumerate(evidence.calls) if isinstance(call, Dispatch) and call.key == key)
    made = {value for call in evidence.dispatches if call.key == key for row in call.results for value in row}
    return any(isinstance(call, Wait | Read) and call.value in made for call in evidence.calls[:last])


def _times(figures: Figures, profile: ProgramProfile, program: Program, fresh: Sequence[int]) -> int:
    """Calls in one: as many in each, and no more than have room in the tiles."""
    free = figures.machine.tile_sram_bytes - profile.peak_tile_bytes
    of_call = sum(argument.size_bytes for argument in program.arguments if argument.index in fresh) / figures.machine.num_tiles
    most = min(LOOP_STEPS, profile.runs, int(_ROOM * max(free, 0) / of_call) if of_call else LOOP_STEPS)
    return ceil_div(profile.runs, ceil_div(profile.runs, most)) if most > 1 else 0


def _states(evidence: Evidence, key: int) -> dict[int, int]:
    """Index of an argument -> index of the result of the call before that it mostly is."""
    calls = [call for call in evidence.dispatches if call.key == key]
    found: Counter[tuple[int, int]] = Counter()
    for before, after in pairwise(calls):
        made = {value: index for index, value in enumerate(before.results[0])}
        found.update((index, made[value]) for index, value in enumerate(after.arguments[0]) if value in made)
    return {argument: result for (argument, result), times in found.items() if 2 * times >= len(calls) - 1}
