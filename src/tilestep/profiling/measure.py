"""Makes a profile from the recording of a simulation in memory, and from what of its marks no table has: bytes, groups and batches."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from tilestep.figures.donation_pairs import could_be_donated, free_results
from tilestep.figures.gradients import could_recompute
from tilestep.figures.intervals import interval_of
from tilestep.figures.quantities import names_text
from tilestep.figures.reader.compilation import Compilation, CompiledProgram, Target
from tilestep.figures.reader.sums import CyclesByIpu, busiest_of, cycles_by_ipu
from tilestep.figures.reader.totals import executed
from tilestep.figures.reader.trees import family_of
from tilestep.figures.records import (
    BatchProfile,
    FamilyCycles,
    GroupProfile,
    Loading,
    MachineProfile,
    Need,
    Origin,
    ProgramCycles,
    ProgramProfile,
    ShapesProfile,
    StepProfile,
    StreamedArgument,
)
from tilestep.machine.assemble import describe
from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import LARGEST, fits
from tilestep.plan.steps import HostCall, Superstep
from tilestep.plan.streaming import streaming_memory_bytes
from tilestep.recording.builder import Builder
from tilestep.recording.capture import Compiled, Span, capture_sums
from tilestep.recording.history import History
from tilestep.recording.sources import Source
from tilestep.sim.ledger import ProgramTotals
from tilestep.sim.system import Mark, System
from tilestep.sim.trace import BESIDE, KINDS
from tilestep.units import cycles_from_seconds, seconds_from_cycles
from tilestep.views.profile import Profile

NUM_LARGEST_STEPS = 100  # that a profile keeps
NUM_ALIVE = 100  # values at the peak of a program's memory that a profile names


def profile_between(
    system: System,
    start: Mark,
    end: Mark,
    *,
    of_jax: Callable[[str], bool] = lambda _: False,
    history: History | None = None,
    sources: Mapping[int, Source] | None = None,
    notes: Sequence[str] = (),
    refused: Sequence[Need] = (),
) -> Profile:
    """What happened in `system` between two marks.

    Args:
        system: the emulated system.
        start: the mark at which the profile begins. Values that were resident before count as resident.
        end: a later mark.
        of_jax: whether a program of this name is an operation outside of jit, or a function that JAX has jitted itself.
        history: from `start` to `end`, so that the gains of findings can be worked out; None: it was not kept.
        sources: what programs were planned from, by key.
        notes: sentences about the settings, for the profile's assumptions.
        refused: what programs needed that did not fit, so that they never ran.

    Raises:
        ValueError: if `end` was not made after `start`.
    """
    if end.number <= start.number:
        raise ValueError(f"mark {end.number} does not come after mark {start.number}: a profile needs its end after its start")
    since = (totals.since(start.programs.get(key)) for key, totals in end.programs.items())
    ran = [totals for totals in since if totals.runs or totals.host.read]
    spec = system.machine
    groups = {totals.key: _group(totals, end) for totals in ran}
    dispatches = sum(totals.runs - sum(totals.runs_by_group.values()) for totals in ran)  # a member is dispatched with its group

    def origin(totals: ProgramTotals) -> Origin:
        if groups[totals.key]:
            return "group"
        return "jax" if of_jax(totals.program.name) else "user"

    builder = Builder(kind="run")
    compiled = {each.key: Compiled(program=each.program, origin=origin(each), group=groups[each.key]) for each in ran}
    capture_sums(builder, Span(system=system, begin=start, end=end, history=None), compiled)
    recorded = Compilation(builder.tables(), Target(machine=spec), dict(enumerate(ran)))
    steps = [_steps(program) for program in recorded.programs]
    by_ipu = cycles_by_ipu(recorded.tables, slice(None))
    busiest = busiest_of(by_ipu)
    by_kind = {kind: busiest.by_kind[kind] for kind in KINDS if kind in busiest.by_kind and kind not in BESIDE}
    trace = system.trace_between(start, end)
    cycles = end.cycle - start.cycle
    dispatch_cycles = dispatches * cycles_from_seconds(spec.host.dispatch_seconds, spec.ipu.clock_hz)
    programs = tuple(_program(*each, start, end, spec) for each in zip(recorded.programs, ran, steps, strict=True))
    waited = min(max(cycles - busiest.cycles, 0), dispatch_cycles)
    members = _groups(end, set(groups.values()))
    needed = (*(group.peak_tile_bytes for group in members), *(need.needed_bytes for need in refused if need.of_tile))
    tile_bytes = max((*(program.peak_tile_bytes for program in programs if program.runs), *needed), default=0)
    return Profile(
        machine=MachineProfile(
            name=spec.name,
            num_ipus=spec.num_ipus,
            num_tiles=spec.ipu.num_tiles,
            tile_sram_bytes=spec.ipu.tile.sram_bytes,
            tile_executable_bytes=spec.ipu.tile.executable_bytes,
            clock_hz=spec.ipu.clock_hz,
            sync_pattern=spec.sync_pattern,
            streaming_memory_bytes=spec.host.streaming_memory_bytes,
        ),
        emulated_cycles=cycles,
        programs=programs,
        groups=members,
        reshaped=tuple(_reshaped([program for program in recorded.programs if program.origin == "user"])),
        batches=_batches(start, end),
        supersteps=tuple(heapq.nlargest(NUM_LARGEST_STEPS, itertools.chain(*steps), key=lambda step: step.total)),
        busiest_ipu=busiest.ipu,
        num_ipus_used=len(by_ipu),
        loaded_on_busiest=_loaded_on(busiest.ipu, recorded.programs),
        loaded_elsewhere=tuple(_loaded_elsewhere(busiest.ipu, by_ipu, recorded.programs)),
        cycles_by_kind=by_kind,
        io_tiles_cycles=sum(busiest.by_kind.values()) - busiest.cycles,
        dispatches=dispatches,
        dispatch_cycles=dispatch_cycles,
        timeline=trace.events,
        assumptions=(*_assumptions(spec, recorded.programs, trace.dropped), *notes),
        refused=tuple(refused),
        interval=interval_of(programs, seconds_from_cycles(cycles, spec.ipu.clock_hz), spec, tile_bytes=tile_bytes, waited_cycles=waited),
        history=history,
        sources={} if sources is None else sources,
    )


def _program(
    program: CompiledProgram, totals: ProgramTotals, steps: Sequence[StepProfile], start: Mark, end: Mark, machine: MachineSpec
) -> ProgramProfile:
    """Args: totals: its sums as the marks have them, for the bytes that no table has."""
    planned = program.planned
    first = next(((b_in, b_out) for mark, b_in, b_out in totals.sizes.first_runs if start.number <= mark < end.number), (0, 0))
    return ProgramProfile(
        name=program.name,
        key=program.key,
        origin=cast("Origin", program.origin),
        group=program.group,
        num_ipus=program.num_ipus,
        ipu=min(program.cycles_by_ipu, default=0),
        runs=program.runs,
        loads=program.loads,
        host_bytes_in=_usual(totals.sizes.runs_by_bytes_in, first[0]),
        host_bytes_out=_usual(totals.sizes.runs_by_bytes_out, first[1]),
        first_run_host_bytes_in=first[0],
        host_bytes_saved=totals.host.saved,
        host_bytes_restored=totals.host.restored,
        host_bytes_read=totals.host.read,
        call_bytes_in=_called(program, lambda call: call.bytes_from_host),
        call_bytes_out=_called(program, lambda call: call.bytes_to_host),
        peak_tile_bytes=planned.memory.peak_bytes,
        peak_tile=planned.memory.tile,
        peak_step=planned.memory.peak_step,
        tile_bytes_by_kind=planned.memory.by_kind,
        alive_tile_bytes=planned.memory.alive[:NUM_ALIVE],
        largest_tile_bytes=planned.memory.largest[:LARGEST],
        values_bytes=planned.memory.values_bytes,
        out_of_memory=not fits(planned.memory, machine.ipu.tile),
        dry=planned.dry,
        streaming_memory_bytes=streaming_memory_bytes(planned, machine, tuple(program.cycles_by_ipu)),
        donated=tuple(argument.name for argument in planned.arguments if argument.result is not None and not argument.on_host),
        not_donated=could_be_donated(planned),
        streamed_again=tuple(_streamed_again(totals, machine)),
        could_recompute=could_recompute(_scopes(program)),
        fallback_ops=planned.fallback_ops,
        flops=planned.flops,
        cycles=ProgramCycles.of_kinds(program.total.by_kind),
        families=_families(steps),
    )


def _called(program: CompiledProgram, size: Callable[[HostCall], int]) -> int:
    """Bytes of all host calls on all IPUs, without accesses to pinned_host."""
    total = 0
    for use in program.cost().uses:
        if isinstance(use.leaf, HostCall) and not use.leaf.in_memory:
            site = use.site
            times = program.runs * program.num_ipus if site is None else sum(n.get(site, 0) for n in program.counts_by_ipu.values())
            total += use.times * times * size(use.leaf)
    return total


def _usual(runs_by_bytes: Mapping[int, int], first: int) -> int:
    """Bytes of most runs, the very first of the program left out; the larger of equals."""
    return max(runs_by_bytes, key=lambda size: (runs_by_bytes[size], size)) if runs_by_bytes else first


def _streamed_again(totals: ProgramTotals, machine: MachineSpec) -> list[StreamedArgument]:
    """Arguments that donation would keep in SRAM: own results, if a result of that shape can take their memory; unchanged values."""
    found: list[StreamedArgument] = []
    free = free_results(totals.program)
    for argument, refed, repeated in zip(totals.program.arguments, totals.refed, totals.repeated, strict=True):
        own = refed >= repeated
        calls = refed if own else repeated
        if argument.result is not None or calls <= 0 or (own and not free[argument.shape]):
            continue
        if own:
            free[argument.shape] -= 1
        each = machine.host_cycles(to_ipus=argument.size_bytes)
        found.append(
            StreamedArgument(
                index=argument.index,
                name=argument.name,
                shape=argument.shape,
                size_bytes=argument.size_bytes,
                calls=calls,
                cycles=calls * each // totals.program.num_ipus,
                reason="own result" if own else "same value",
            )
        )
    return found


def _steps(program: CompiledProgram) -> list[StepProfile]:
    uses = list(executed(program))
    alone = sum(executions * use.cycles.host_call for use, executions in uses)
    stopped = min(alone, program.total.by_kind.get("host-call", 0))  # less than alone: feeds went over I/O tiles beside compute
    return [
        StepProfile(
            program=program.name,
            key=program.key,
            name=use.leaf.name,
            scope=use.leaf.scope,
            family=family_of(use.leaf),
            executions=executions,
            compute=executions * use.cycles.compute,
            exchange=executions * (use.cycles.exchange + use.cycles.collective),
            sync=executions * use.cycles.sync,
            host=executions * use.cycles.host_call * stopped // alone if alone else 0,
            fallback=isinstance(use.leaf, Superstep) and use.leaf.fallback,
        )
        for use, executions in uses
        if executions
    ]


def _families(steps: Sequence[StepProfile]) -> tuple[FamilyCycles, ...]:
    names = dict.fromkeys(step.family for step in steps)
    families = [
        FamilyCycles(
            family=name,
            compute=sum(step.compute for step in steps if step.family == name),
            exchange=sum(step.exchange for step in steps if step.family == name),
            sync=sum(step.sync for step in steps if step.family == name),
            host=sum(step.host for step in steps if step.family == name),
        )
        for name in names
    ]
    return tuple(sorted(families, key=lambda family: -family.total))


def _loaded_on(ipu: int, programs: Sequence[CompiledProgram]) -> tuple[int, ...]:
    return tuple(program.key for program in programs if program.cycles_by_ipu.get(ipu, {}).get("load"))


def _loaded_elsewhere(busiest: int, by_ipu: CyclesByIpu, programs: Sequence[CompiledProgram]) -> Iterator[Loading]:
    moved = {ipu: (kinds["load"], kinds.get("save", 0)) for ipu, kinds in by_ipu.items() if "load" in kinds and ipu != busiest}
    for ipu in sorted(moved, key=lambda ipu: (-sum(moved[ipu]), ipu)):
        load, save = moved[ipu]
        yield Loading(ipu=ipu, load_cycles=load, save_cycles=save, keys=_loaded_on(ipu, programs))


def _group(totals: ProgramTotals, end: Mark) -> str:
    """The program group that a program ran in; '' if in none. Runs before the profile count if only results were read in it."""
    return next(iter((totals if totals.runs else end.programs[totals.key]).runs_by_group), "")


def _groups(end: Mark, ran: set[str]) -> tuple[GroupProfile, ...]:
    fullest: dict[str, GroupProfile] = {}
    for (name, ipu), group in end.groups.items():
        peak = group.use.peak_bytes
        if name in ran and (name not in fullest or peak > fullest[name].peak_tile_bytes):
            fullest[name] = GroupProfile(name=name, ipu=ipu, programs=tuple(group.members.values()), peak_tile_bytes=peak)
    return tuple(fullest.values())


def _scopes(program: CompiledProgram) -> frozenset[str]:
    return frozenset(use.leaf.scope for use in program.cost().uses if use.leaf.scope)


def _reshaped(ran: Sequence[CompiledProgram]) -> Iterator[ShapesProfile]:
    """Programs of one name, with the same operations and arguments, that differ in what these arguments are."""
    functions: dict[tuple[object, ...], list[CompiledProgram]] = {}
    for program in ran:
        planned = program.planned
        called = tuple((argument.name, argument.on_host) for argument in planned.arguments)
        functions.setdefault((program.name, program.num_ipus, called, len(planned.results), _scopes(program)), []).append(program)
    for programs in functions.values():
        programs.sort(key=lambda program: (-program.runs, program.key))
        columns = list(zip(*(program.planned.arguments for program in programs), strict=True))
        differing = [column for column in columns if len({argument.shape for argument in column}) > 1]
        if not differing:
            continue
        largest = max(differing, key=lambda column: max(argument.size_bytes for argument in column))
        parts = [[argument.shape.partition("[") for argument in column] for column in differing]
        rests = [{(dtype, dims.partition(",")[2], dims == "]") for dtype, _, dims in column} for column in parts]
        batch = len(differing) < len(columns) and all(len(rest) == 1 for rest in rests)
        yield ShapesProfile(
            name=programs[0].name,
            keys=tuple(program.key for program in programs),
            argument=largest[0].name,
            shapes=tuple(argument.shape for argument in largest),
            differs="batch" if batch else "dtype" if any(len({d for d, _, _ in column}) > 1 for column in parts) else "shape",
        )


def _batches(start: Mark, end: Mark) -> tuple[BatchProfile, ...]:
    since = {batch: steps - start.accumulated.get(batch, 0) for batch, steps in end.accumulated.items()}
    return tuple(BatchProfile(**asdict(batch), steps=steps) for batch, steps in since.items() if steps)


def _assumptions(machine: MachineSpec, ran: Sequence[CompiledProgram], dropped: int) -> tuple[str, ...]:
    sentences = sorted({sentence for program in ran for sentence in program.planned.assumptions})
    if any(isinstance(use.leaf, HostCall) for program in ran for use in program.cost().uses):
        sentences.append("The host answers a callback, infeed or outfeed at once; only the transfers take time.")
    assumed = [entry.path for entry in describe(machine) if entry.basis == "assumed"]
    if ran and assumed:
        sentences.append(f"Assumed figures of {machine.name}: {names_text(assumed, most=8)}.")
    if dropped:
        sentences.append(f"The timeline leaves out the last {dropped:,} events; all figures count them.")
    return tuple(sentences)
