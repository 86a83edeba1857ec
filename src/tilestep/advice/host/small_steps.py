"""Advice on what is too small: thin products, supersteps that mostly synchronise, and calls that take longer than their work."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.host.donation import never_new
from tilestep.advice.host.set_up import are_parts, steady_state
from tilestep.advice.host.streaming import fresh_arguments, longest_streaming
from tilestep.advice.ipus.limits import PRODUCTS, longest_program, superstep_cycles
from tilestep.advice.memory.batch import batches, with_batch
from tilestep.advice.phrases import ENDING_LOOP, LOOP, MORE_STEPS, chunks_of, group_text, is_loop, times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.lines import line_of
from tilestep.advice.user_code.source_lines import constants, tested_at
from tilestep.figures.gradients import goes_backward
from tilestep.figures.quantities import share_text, time_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.plan.frames import own_frames
from tilestep.plan.steps import Loop, Program, Series, Superstep, leaves
from tilestep.recording.edits.batch_calls import in_fewer_calls
from tilestep.recording.edits.looped import in_loops
from tilestep.recording.edits.reads import read_at_the_end, runs_read
from tilestep.recording.edits.relocate import LOOP_STEPS
from tilestep.recording.edits.script import Change, Script, in_turn
from tilestep.recording.sources import MOST_TEXT, Source
from tilestep.sim.calls import Dispatch, Read, Wait
from tilestep.units import ceil_div

_ON_IPU: Final = "a loop on the IPU (lax.scan, or repeat of tilestep.train)"
_LEAST_FILLED_SHARE: Final = 0.3  # products that use less of the matrix units are thin
_MOST_SYNC_SHARE: Final = 0.3  # supersteps with more are small
_FACTORS: Final = (2, 4, 8, 16)
_ENOUGH_OF_LARGEST_SAVING: Final = 0.8
_LEAST_SHARE: Final = 0.05  # share of emulated time


class _Larger(NamedTuple):
    """A program with a larger batch."""

    batch: int
    factor: int
    program: Program
    argument_indices: frozenset[int]


def small(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The program with the longest supersteps, if its batch is too small to fill the tiles."""
    profile = longest_program(figures, evidence)
    if evidence is None or profile is None or not superstep_cycles(profile):
        return
    program, source = evidence.programs[profile.key], evidence.sources[profile.key]
    filled = _filled(evidence, profile)
    thin = profile.families[0].family in PRODUCTS and filled < _LEAST_FILLED_SHARE
    if not thin and sum(family.sync for family in profile.families) < _MOST_SYNC_SHARE * superstep_cycles(profile):
        return
    larger = _larger(evidence, profile, program, source, _most_behind_each_other(figures, evidence, profile))
    if larger is None:
        return
    batch, factor, planned, indices = larger
    parts = profile.num_ipus if profile.num_ipus > 1 and are_parts(evidence, profile, indices) else 1
    new, now = f"{batch * parts * factor:,}", f"{batch * parts:,}"
    if parts < profile.num_ipus:
        new = f"{new} on each IPU"
    label = figures.label(profile.key)
    longer = f"{factor} times the work in {_cycles(planned) / max(_cycles(program), 1):.2g} times the time"
    if thin:
        head = f"The products of {label} use {share_text(filled, 1)} of the matrix units, because they are thin"
    else:
        share = share_text(sum(family.sync for family in profile.families), superstep_cycles(profile))
        head = f"{share} of the supersteps of {label} is sync, because they are small"
    text = f"{head}: with {new} in place of {now}, the size of its batch, it does {longer}. {_price(evidence, profile, program)}"
    largest = max(
        (leaf for leaf in leaves(program.body) if isinstance(leaf, Superstep)), key=lambda leaf: leaf.compute_cycles, default=None
    )
    edit, change, times = f"make the batch of {label} {new}", in_fewer_calls(profile.key, planned, factor), 1
    if profile.group:
        changed = {profile.key: planned, **_members(figures, evidence, profile, batch, factor)}
        what = f"the batch of {group_text(profile.group)}" if is_loop(profile.group) else f"microbatches of {profile.group} of"
        edit = f"make {what} {batch * factor:,} samples in place of {batch:,}, in fewer steps"
        change, times = _all_larger(changed), factor
        if is_loop(profile.group):  # as many calls, each of fewer trips: what a call takes beside its trips stays
            trips = chunks_of(profile.group)
            shorter = {key: _in_fewer_trips(larger, evidence.programs[key], trips, factor) for key, larger in changed.items()}
            change, times = _all_larger(shorter), 1
    runs = evidence.runs_of(profile.key)
    read = 0 if profile.group else runs_read(Script(calls=evidence.calls, programs=evidence.programs), profile.key)
    fewer = "steps" if profile.group else "calls and as many reads" if 1 < read <= len(runs) // factor else "calls"
    steady = steady_state(figures, evidence)
    where = _number(evidence, profile.key, batch * parts)
    way = Way(
        edit=edit,
        change=change,
        how="about",
        basis=f"for as many samples in fewer {fewer}, planned again with a batch of {new}",
        times=times,
        fewer_calls=times == 1,
        fixed_cycles=steady.set_up_cycles if steady is not None else sum(p.cycles.load for p in figures.programs),
        plans=True,
        line=where,
    )
    line = evidence.line_of_call(profile.key) or (None if largest is None else line_of(program, largest.frame))
    finding = Finding(kind="products" if thin else "steps", text=text, line=line)
    yield Proposal(finding=finding, ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def _in_fewer_trips(larger: Program, program: Program, trips: tuple[int, ...], factor: int) -> Program:
    """A larger program of a loop's chunk for as many samples: fewer trips, and as many bytes. Args: trips: of chunks."""
    nodes = tuple(
        replace(node, trips=ceil_div(node.trips, factor)) if isinstance(node, Loop) and node.trips in trips and node.trips else node
        for node in larger.body.nodes
    )
    return replace(larger, body=Series(nodes=nodes), arguments=program.arguments, results=program.results)


def _price(evidence: Evidence, profile: ProgramProfile, program: Program) -> str:
    """What a larger batch costs beside time."""
    given = {value for call in evidence.dispatches if call.key == profile.key for row in call.arguments for value in row}
    learns = any(goes_backward(leaf.scope) for leaf in leaves(program.body)) or not given.isdisjoint(evidence.states)
    return "A larger batch changes what a step learns." if learns else "Each answer waits for the others of its batch."


def _members(figures: Figures, evidence: Evidence, profile: ProgramProfile, batch: int, factor: int) -> dict[int, Program]:
    """The other programs of its group that have the same batch, with the larger one."""
    found: dict[int, Program] = {}
    for other in figures.programs if profile.group else ():
        source = evidence.sources.get(other.key)
        if other.key == profile.key or other.group != profile.group or source is None or not 0 < len(source.text()) <= MOST_TEXT:
            continue
        for size, dims in batches(evidence.programs[other.key], never_new(evidence, other)):
            planned = None if size != batch else with_batch(evidence.programs[other.key], source, evidence.machine, dims, factor)
            if planned is not None:
                found[other.key] = planned
                break
    return found


def _number(evidence: Evidence, key: int, batch: int) -> Line | None:
    """The only line of the program's files that says how large a batch is; None if there is none."""
    frames, call = evidence.programs[key].frames, evidence.line_of_call(key)
    files = [frames[n - 1].file for n in own_frames(frames)]
    found = constants([*files, *([] if call is None else [call.file])], batch)
    named = [line for line, name, text in found if "batch" in f"{name} {text}".lower() and not name.lower().endswith("batches")]  # a count
    return named[0] if len(named) == 1 else None


def _filled(evidence: Evidence, profile: ProgramProfile) -> float:
    """The share of the matrix units' products that the program's products are, while they run."""
    ipu = evidence.machine.ipu
    products = [leaf for leaf in leaves(evidence.programs[profile.key].body) if isinstance(leaf, Superstep) and leaf.family in PRODUCTS]
    cycles = sum(leaf.compute_cycles + leaf.exchange_cycles + leaf.sync_cycles for leaf in products)
    possible = 2 * ipu.macs_per_cycle_float * ipu.num_tiles * cycles
    return sum(leaf.flops for leaf in products) / possible if possible else 1.0


def _most_behind_each_other(figures: Figures, evidence: Evidence, profile: ProgramProfile) -> int:
    """How many runs of a program mostly have no other of the user's between them, such as an epoch's; any number if none comes between."""
    own = {p.key for p in figures.programs if p.origin == "user" or (p.group and is_loop(p.group))}
    keys = groupby(call.key for call in evidence.dispatches if call.key in own)
    counts = [sum(1 for _ in runs) for key, runs in keys if key == profile.key]
    usual = Counter(count for count in counts if count > 1).most_common(1)
    return usual[0][0] if len(counts) > 1 and usual else sys.maxsize


def _larger(evidence: Evidence, profile: ProgramProfile, program: Program, source: Source, most: int) -> _Larger | None:
    """The program with the least multiple of its batch that saves most of what the largest one that fits does; None if there is none.

    Args: most: times the batch.
    """
    for batch, dims in batches(program, never_new(evidence, profile)):
        found = list(_multiples(evidence, program, source, batch, dims, most))
        saved = [_cycles(program) - _cycles(larger.program) / larger.factor for larger in found]
        if saved and max(saved) > 0:
            return next(larger for larger, of_it in zip(found, saved, strict=True) if of_it >= _ENOUGH_OF_LARGEST_SAVING * max(saved))
    return None


def _multiples(evidence: Evidence, program: Program, source: Source, batch: int, dims: Mapping[int, int], most: int) -> Iterator[_Larger]:
    """The program with multiples of its batch, as long as they fit."""
    for factor in (factor for factor in _FACTORS if factor <= most):
        planned = with_batch(program, source, evidence.machine, dims, factor)
        if planned is None or planned.memory.peak_bytes > evidence.machine.ipu.tile.sram_bytes:
            return  # it is of steps of a loop, perhaps
        yield _Larger(batch, factor, planned, frozenset(dims))


def _cycles(program: Program) -> int:
    return sum(
        leaf.compute_cycles + leaf.exchange_cycles + leaf.sync_cycles for leaf in leaves(program.body) if isinstance(leaf, Superstep)
    )


def _all_larger(changed: Mapping[int, Program]) -> Change:
    return lambda script: script.with_programs(changed)


_LEAST_RUNS: Final = 16
_LONG: Final = 1e-3  # emulated seconds from one call to the next: what is in between is more than a call
_MOST_WORK_SHARE: Final = 0.25  # a call with less is short
_MOST_BYTES_SHARE: Final = 0.25  # share of a call's time, latency aside: where bytes need more, they are to be fewer
_MOST_INTERRUPTED_SHARE: Final = 0.1  # calls that have another program behind them
_ARGUMENTS_SHARE_OF_FREE: Final = 0.5  # the arguments of all calls may take so much of the memory that is left


def short_calls(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's program with most short calls behind each other. One that streams much, or an IPU that waits, is told elsewhere."""
    if evidence is None or figures.idle_cycles * 2 > figures.emulated_cycles:
        return
    known = [
        p for p in figures.programs if (p.origin == "user" or _is_one_step(p)) and p.runs >= _LEAST_RUNS and p.key in evidence.programs
    ]
    profile = max(known, key=lambda p: p.runs, default=None)
    streamed = longest_streaming(figures, evidence, "user")
    if profile is None or (streamed is not None and streamed[0].key == profile.key):
        return
    program, starts = evidence.programs[profile.key], evidence.runs_of(profile.key)
    turns, work = evidence.turns(starts), superstep_cycles(profile) / profile.runs
    if turns is None or evidence.seconds(turn := turns.cycles / turns.count) > _LONG:
        return
    without_reads = turn - profile.cycles.read / profile.runs  # `reads` tells of those
    if work > _MOST_WORK_SHARE * without_reads or _of_bytes(evidence, profile) > _MOST_BYTES_SHARE * without_reads:
        return
    if not _follow_each_other(evidence, profile.key):
        return
    fresh = [argument.index for argument in fresh_arguments(profile, program, evidence)]
    states = _states(evidence, profile.key)
    times = min(_times(figures, profile, program, fresh), _most_behind_each_other(figures, evidence, profile))
    if times < 2:
        return
    label, loops = figures.label(profile.key), _is_one_step(profile)
    several = f"several steps in one call, with {MORE_STEPS}" if loops else f"several in one call, with {_ON_IPU}"
    each, own = time_text(evidence.seconds(turn)), time_text(evidence.seconds(work))
    text = (
        f"{label} ran {times_text(profile.runs)}. From one run to the next it takes {each}, of which it works for {own}; the rest is each "
        f"call's own, such as its transfers: do {several}."
    )
    loop = in_loops(profile.key, times, evidence.machine, fresh=fresh, states=set(states.values()))
    tested = any(map(tested_at, evidence.host_lines.pauses))
    edit = f"loop over {times} calls of {label} on the IPU ({ENDING_LOOP if tested else LOOP})"
    if loops:  # which give the last step's results
        edit, loop = f"do {times} steps of {label} in each call ({MORE_STEPS})", in_turn(_by_itself(profile.key), loop)
    elif tested:
        loop = in_turn(read_at_the_end, loop)
    elif _is_watched(evidence, profile.key):
        edit, loop = f"{edit}, and read results after it", in_turn(read_at_the_end, loop)
    way = Way(edit=edit, change=loop, how="about", basis="played as one program with a loop", fewer_calls=True)
    finding = Finding(kind="calls", text=text, line=evidence.line_of_call(profile.key))
    yield Proposal(finding=finding, ways=(way,), only_with_gain=True, least_share=_LEAST_SHARE)


def _is_one_step(profile: ProgramProfile) -> bool:
    """Whether each call is a step of a loop of this package."""
    return bool(profile.group) and is_loop(profile.group) and chunks_of(profile.group) == (1, 0)


def _by_itself(key: int) -> Change:
    """The edit after which calls of a loop's program are those of no program group, so that one may do the work of several."""
    return lambda script: replace(
        script, calls=[call._replace(group=None) if isinstance(call, Dispatch) and call.key == key else call for call in script.calls]
    )


def _of_bytes(evidence: Evidence, profile: ProgramProfile) -> int:
    """Cycles that a call's bytes take on the host link."""
    return evidence.machine.host_cycles(to_ipus=profile.host_bytes_in, to_host=profile.host_bytes_out)


def _follow_each_other(evidence: Evidence, key: int) -> bool:
    """Whether the program's calls mostly have no other program between them."""
    calls = evidence.dispatches
    own = sum(call.key == key for call in calls)
    return sum(one.key == key != other.key for one, other in pairwise(calls)) <= _MOST_INTERRUPTED_SHARE * own


def _is_watched(evidence: Evidence, key: int) -> bool:
    """Whether the host waits for results, or reads them, between the calls."""
    last = max(index for index, call in enumerate(evidence.calls) if isinstance(call, Dispatch) and call.key == key)
    made = {value for call in evidence.dispatches if call.key == key for row in call.results for value in row}
    return any(isinstance(call, Wait | Read) and call.value in made for call in evidence.calls[:last])


def _times(figures: Figures, profile: ProgramProfile, program: Program, fresh: Sequence[int]) -> int:
    """Calls in one: as many in each, and no more than have room in the tiles."""
    free = figures.machine.tile_sram_bytes - profile.peak_tile_bytes
    of_call = sum(argument.size_bytes for argument in program.arguments if argument.index in fresh) / figures.machine.num_tiles
    most = min(LOOP_STEPS, profile.runs, int(_ARGUMENTS_SHARE_OF_FREE * max(free, 0) / of_call) if of_call else LOOP_STEPS)
    return ceil_div(profile.runs, ceil_div(profile.runs, most)) if most > 1 else 0


def _states(evidence: Evidence, key: int) -> dict[int, int]:
    """Index of an argument -> index of the result of the call before that it mostly is."""
    calls = [call for call in evidence.dispatches if call.key == key]
    found: Counter[tuple[int, int]] = Counter()
    for before, after in pairwise(calls):
        made = {value: index for index, value in enumerate(before.results[0])}
        found.update((index, made[value]) for index, value in enumerate(after.arguments[0]) if value in made)
    return {argument: result for (argument, result), times in found.items() if 2 * times >= len(calls) - 1}
