"""Makes a profile from the recording of a simulation in memory."""

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from tilestep.figures.donation_pairs import could_be_donated, free_results
from tilestep.figures.gradients import could_recompute
from tilestep.figures.intervals import interval_of
from tilestep.figures.quantities import names_text
from tilestep.figures.reader.programs.compilation import Compilation, CompiledProgram, Target
from tilestep.figures.reader.programs.totals import executed
from tilestep.figures.reader.programs.trees import family_of
from tilestep.figures.reader.sums import CyclesByIpu, busiest_of, cycles_by_ipu
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
from tilestep.plan.memory.liveness import LARGEST, fits
from tilestep.plan.memory.streaming import streaming_memory_bytes
from tilestep.plan.steps import HostCall, Superstep
from tilestep.recording.builder import Builder
from tilestep.recording.history import History
from tilestep.recording.schema import TABLES
from tilestep.recording.sources import Source
from tilestep.recording.sums import SimulationSpan, add_sums, ran_in
from tilestep.sim.system import Mark, System
from tilestep.sim.trace import BESIDE, KINDS
from tilestep.units import cycles_from_seconds, seconds_from_cycles
from tilestep.views.profile import Profile

NUM_LARGEST_STEPS_KEPT = 100
NUM_ALIVE = 100  # values at the peak of a program's memory that a profile names

_DIVIDES_ANEW: Final = "jit__device_put_reshard"  # JAX's program of a `jax.device_put` where some devices are another process's


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
    span, builder = SimulationSpan(system=system, begin=start, end=end, history=None), Builder(kind="run")
    ran = ran_in(span, of_jax)
    add_sums(builder, span, ran)
    recorded = Compilation(builder.tables(), Target(machine=system.machine), {row: end.programs[key] for row, key in enumerate(ran)})
    timeline = system.trace_between(start, end).events
    profile = profile_of(recorded, notes=notes, refused=refused)
    return replace(profile, timeline=timeline, history=history, sources={} if sources is None else sources)


def profile_of(recorded: Compilation, *, notes: Sequence[str] = (), refused: Sequence[Need] = ()) -> Profile:
    """The profile of a recording, without its evidence. Arguments as for `profile_between`."""
    tables, spec = recorded.tables, recorded.target.machine
    begin, end, dropped = (tables.column("period", name).item() for name in ("begin", "end", "dropped"))
    cycles = end - begin
    dispatches = int(tables.column("host_bytes", "dispatches").sum())
    ran = [recorded.programs[row] for row in tables.column("host_bytes", "program").tolist()]
    steps = [_steps(program) for program in ran]
    by_ipu = cycles_by_ipu(tables, slice(None))
    busiest = busiest_of(by_ipu)
    by_kind = {kind: busiest.by_kind[kind] for kind in KINDS if kind in busiest.by_kind and kind not in BESIDE}
    dispatch_cycles = dispatches * cycles_from_seconds(spec.host.dispatch_seconds, spec.ipu.clock_hz)
    programs = tuple(_program(*each, spec) for each in zip(ran, steps, strict=True))
    waited = min(max(cycles - busiest.cycles, 0), dispatch_cycles)
    members = tuple(_groups(recorded))
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
        reshaped=tuple(_reshaped([program for program in ran if program.origin == "user"])),
        batches=tuple(_batches(recorded)),
        supersteps=tuple(heapq.nlargest(NUM_LARGEST_STEPS_KEPT, itertools.chain(*steps), key=lambda step: step.total)),
        busiest_ipu=busiest.ipu,
        num_ipus_used=len(by_ipu),
        loaded_on_busiest=_loaded_on(busiest.ipu, ran),
        loaded_elsewhere=tuple(_loaded_elsewhere(busiest.ipu, by_ipu, ran)),
        cycles_by_kind=by_kind,
        cycles_by_ipu=by_ipu,
        io_tiles_cycles=sum(busiest.by_kind.values()) - busiest.cycles,
        dispatches=dispatches,
        dispatch_cycles=dispatch_cycles,
        assumptions=(*_assumptions(spec, ran, dropped), *notes),
        refused=tuple(refused),
        interval=interval_of(programs, seconds_from_cycles(cycles, spec.ipu.clock_hz), spec, tile_bytes=tile_bytes, waited_cycles=waited),
    )


def _program(program: CompiledProgram, steps: Sequence[StepProfile], machine: MachineSpec) -> ProgramProfile:
    planned = program.planned
    [row] = program.grouped.rows("host_bytes", "program", program.row)
    names = [name for name in TABLES["host_bytes"] if name not in ("program", "dispatches")]
    host_bytes: dict[str, int] = {name: program.tables.column("host_bytes", name)[row].item() for name in names}
    return ProgramProfile(
        name=program.name,
        key=program.key,
        origin=cast("Origin", program.origin),
        group=program.group,
        num_ipus=program.num_ipus,
        ipu=min(program.cycles_by_ipu, default=0),
        runs=program.runs,
        loads=program.loads,
        **host_bytes,
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
        streamed_again=tuple(_streamed_again(program, machine)),
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


def _streamed_again(program: CompiledProgram, machine: MachineSpec) -> Iterator[StreamedArgument]:
    """Arguments that donation would keep in SRAM: own results, if a result of that shape can take their memory; unchanged values."""
    planned, rows = program.planned, program.grouped.rows("again", "program", program.row)
    free = free_results(planned)
    again: list[list[int]] = [program.tables.column("again", name)[rows].tolist() for name in ("argument", "refed", "repeated")]
    for position, refed, repeated in zip(*again, strict=True):
        argument, own = planned.arguments[position], refed >= repeated
        if argument.result is not None or (own and not free[argument.shape]):
            continue
        if own:
            free[argument.shape] -= 1
        calls = refed if own else repeated
        yield StreamedArgument(
            index=argument.index,
            name=argument.name,
            shape=argument.shape,
            size_bytes=argument.size_bytes,
            calls=calls,
            cycles=calls * machine.host_cycles(to_ipus=argument.size_bytes) // planned.num_ipus,
            reason="own result" if own else "same value",
        )


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


def _rows(recorded: Compilation, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, with texts in place of their numbers."""
    tables = recorded.tables
    columns: list[list[int]] = [tables.column(table, name).tolist() for name in TABLES[table]]
    for row in zip(*columns, strict=True):
        named = zip(TABLES[table].items(), row, strict=True)
        yield {name: recorded.strings[value] if column.table == "strings" else value for (name, column), value in named}


def _groups(recorded: Compilation) -> Iterator[GroupProfile]:
    members = list(_rows(recorded, "members"))
    for number, group in enumerate(_rows(recorded, "groups")):
        yield GroupProfile(**group, programs=tuple(member["name"] for member in members if member["group"] == number))


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


def _batches(recorded: Compilation) -> Iterator[BatchProfile]:
    for batch in _rows(recorded, "batches"):
        known: dict[str, Any] = {name: None if value == -1 else value for name, value in batch.items()}
        yield BatchProfile(**known)


def _of_fewer(machine: MachineSpec, ran: Sequence[CompiledProgram]) -> list[str]:
    """Names of programs that ran on some of the parts of a machine that are said to do the same, while other programs ran on more."""
    parts = [(program.name, {ipu // machine.num_simulated for ipu in program.cycles_by_ipu}) for program in ran]
    used = set[int]().union(*(of for _, of in parts))
    return sorted({name for name, of in parts if of and of != used})


def _assumptions(machine: MachineSpec, ran: Sequence[CompiledProgram], dropped: int) -> tuple[str, ...]:
    sentences = sorted({sentence for program in ran for sentence in program.planned.assumptions})
    if any(isinstance(use.leaf, HostCall) for program in ran for use in program.cost().uses):
        sentences.append("The host answers a callback, infeed or outfeed at once; only the transfers take time.")
    assumed = [entry.path for entry in describe(machine) if entry.basis == "assumed" and entry.path != "simulated_ipus"]
    if ran and assumed:
        sentences.append(f"Assumed figures of {machine.name}: {names_text(assumed, most=8)}.")
    if machine.num_simulated < machine.num_ipus:
        sentences.append(
            f"IPU k does what IPU k modulo {machine.num_simulated} does (simulated_ipus). The timeline has the simulated ones alone; all "
            "figures count the others too."
        )
    if unequal := _of_fewer(machine, ran):
        sentences.append(
            f"Not all IPUs that are said to do the same ran {names_text(unequal, most=8)}: what programs take that wait or are loaded "
            "again because of that may differ from a simulation of all."
        )
    if machine.num_simulated < machine.num_ipus and any(program.name == _DIVIDES_ANEW for program in ran):
        sentences.append(
            f"{_DIVIDES_ANEW} is there because not all IPUs are simulated: else jax.device_put divides an array anew by copies."
        )
    if dropped:
        sentences.append(f"The timeline leaves out the last {dropped:,} events; all figures count them.")
    return tuple(sentences)
