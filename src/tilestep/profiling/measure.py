"""Makes a profile from the sums of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from tilestep.figures.gradients import could_recompute
from tilestep.figures.intervals import interval_of
from tilestep.figures.quantities import names_text
from tilestep.figures.records import (
    PINNED_HOST,
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
from tilestep.figures.replaceable import could_be_donated, free_results
from tilestep.machine.assemble import describe
from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import LARGEST, fits
from tilestep.plan.steps import Collective, HostCall, Superstep
from tilestep.plan.streaming import streaming_memory_bytes
from tilestep.recording.history import History
from tilestep.recording.sources import Source
from tilestep.sim.body import LeafUse
from tilestep.sim.ledger import ProgramTotals
from tilestep.sim.system import Mark, System
from tilestep.sim.trace import BESIDE, KINDS, EventKind
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
    steps = {totals.key: _steps(totals) for totals in ran}
    busiest, by_kind = _busiest(ran)
    beside = {kind: by_kind.pop(kind) for kind in BESIDE if kind in by_kind}
    trace = system.trace_between(start, end)
    largest = sorted((step for of_program in steps.values() for step in of_program), key=lambda step: -step.total)
    spec = system.machine
    groups = {totals.key: _group(totals, end) for totals in ran}
    dispatches = sum(totals.runs - sum(totals.runs_by_group.values()) for totals in ran)  # a member is dispatched with its group

    def origin(totals: ProgramTotals) -> Origin:
        if groups[totals.key]:
            return "group"
        return "jax" if of_jax(totals.program.name) else "user"

    cycles = end.cycle - start.cycle
    dispatch_cycles = dispatches * cycles_from_seconds(spec.host.dispatch_seconds, spec.ipu.clock_hz)
    programs = tuple(_program(totals, origin(totals), groups[totals.key], steps[totals.key], start, end, spec) for totals in ran)
    waited = min(max(cycles - sum(by_kind.values()), 0), dispatch_cycles)
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
        groups=_groups(end, set(groups.values())),
        reshaped=tuple(_reshaped([totals for totals in ran if origin(totals) == "user"])),
        batches=_batches(start, end),
        supersteps=tuple(largest[:NUM_LARGEST_STEPS]),
        busiest_ipu=busiest,
        num_ipus_used=len({ipu for totals in ran for ipu in totals.cycles}),
        loaded_on_busiest=_loaded_on(busiest, ran),
        loaded_elsewhere=_loaded_elsewhere(busiest, ran),
        cycles_by_kind=by_kind,
        io_tiles_cycles=sum(beside.values()),
        dispatches=dispatches,
        dispatch_cycles=dispatch_cycles,
        timeline=trace.events,
        assumptions=(*_assumptions(spec, ran, trace.dropped), *notes),
        refused=tuple(refused),
        interval=interval_of(programs, seconds_from_cycles(cycles, spec.ipu.clock_hz), spec, waited_cycles=waited),
        history=history,
        sources={} if sources is None else sources,
    )


def _program(
    totals: ProgramTotals, origin: Origin, group: str, steps: Sequence[StepProfile], start: Mark, end: Mark, machine: MachineSpec
) -> ProgramProfile:
    program = totals.program
    first = next(((b_in, b_out) for mark, b_in, b_out in totals.sizes.first_runs if start.number <= mark < end.number), (0, 0))
    return ProgramProfile(
        name=program.name,
        key=totals.key,
        origin=origin,
        group=group,
        num_ipus=program.num_ipus,
        ipu=min(totals.cycles, default=0),
        runs=totals.runs,
        loads=totals.loads,
        host_bytes_in=_usual(totals.sizes.runs_by_bytes_in, first[0]),
        host_bytes_out=_usual(totals.sizes.runs_by_bytes_out, first[1]),
        first_run_host_bytes_in=first[0],
        host_bytes_saved=totals.host.saved,
        host_bytes_restored=totals.host.restored,
        host_bytes_read=totals.host.read,
        call_bytes_in=_called(totals, lambda call: call.bytes_from_host),
        call_bytes_out=_called(totals, lambda call: call.bytes_to_host),
        peak_tile_bytes=program.memory.peak_bytes,
        peak_tile=program.memory.tile,
        peak_step=program.memory.peak_step,
        tile_bytes_by_kind=program.memory.by_kind,
        alive_tile_bytes=program.memory.alive[:NUM_ALIVE],
        largest_tile_bytes=program.memory.largest[:LARGEST],
        values_bytes=program.memory.values_bytes,
        out_of_memory=not fits(program.memory, machine.ipu.tile),
        dry=program.dry,
        streaming_memory_bytes=streaming_memory_bytes(program, machine, tuple(totals.cycles)),
        donated=tuple(argument.name for argument in program.arguments if argument.result is not None and not argument.on_host),
        not_donated=could_be_donated(program),
        streamed_again=tuple(_streamed_again(totals, machine)),
        could_recompute=_could_recompute(totals),
        fallback_ops=program.fallback_ops,
        flops=program.flops,
        cycles=_cycles(totals.cycles[_slowest(totals)]) if totals.cycles else _cycles({}),
        families=_families(steps),
    )


def _called(totals: ProgramTotals, size: Callable[[HostCall], int]) -> int:
    """Bytes of all host calls on all IPUs, without accesses to pinned_host."""
    total = 0
    for use in totals.body.uses:
        if isinstance(use.leaf, HostCall) and not use.leaf.in_memory:
            site = use.site
            times = totals.runs * totals.program.num_ipus if site is None else sum(n.get(site, 0) for n in totals.counted.values())
            total += use.times * times * size(use.leaf)
    return total


def _usual(runs_by_bytes: Mapping[int, int], first: int) -> int:
    """Bytes of most runs, the very first of the program left out; the larger of equals."""
    return max(runs_by_bytes, key=lambda size: (runs_by_bytes[size], size)) if runs_by_bytes else first


def _slowest(totals: ProgramTotals) -> int:
    return max(sorted(totals.cycles), key=lambda ipu: _own_cycles(totals.cycles[ipu]))


def _own_cycles(kinds: Mapping[EventKind, int]) -> int:
    """Cycles of all kinds except those of I/O tiles beside the others."""
    return sum(cycles for kind, cycles in kinds.items() if kind not in BESIDE)


def _cycles(kinds: Mapping[EventKind, int]) -> ProgramCycles:
    spent = Counter(kinds)
    return ProgramCycles(
        compute=spent["compute"],
        exchange=spent["exchange"] + spent["collective"],
        sync=spent["sync"],
        host=spent["stream-in"] + spent["stream-out"] + spent["host-call"] + spent["save"],
        load=spent["load"],
        read=spent["read"],
        beside=sum(spent[kind] for kind in BESIDE),
    )


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


def _steps(totals: ProgramTotals) -> list[StepProfile]:
    if not totals.cycles:
        return []
    slowest = _slowest(totals)
    counted = totals.counted.get(slowest, {})
    uses = [(use, use.times * (totals.runs if use.site is None else counted.get(use.site, 0))) for use in totals.body.uses]
    alone = sum(executions * use.cycles.host_call for use, executions in uses)
    stopped = min(alone, totals.cycles[slowest].get("host-call", 0))  # less than alone: feeds went over I/O tiles beside compute
    return [
        _step(totals, use, executions, executions * use.cycles.host_call * stopped // alone if alone else 0)
        for use, executions in uses
        if executions
    ]


def _step(totals: ProgramTotals, use: LeafUse, executions: int, host: int) -> StepProfile:
    """Args: host: cycles for which the program stopped for it."""
    leaf, cycles = use.leaf, use.cycles
    match leaf:
        case Superstep():
            family = leaf.family
        case Collective():
            family = leaf.kind
        case HostCall():
            family = PINNED_HOST if leaf.in_memory else "host call"
    return StepProfile(
        program=totals.program.name,
        key=totals.key,
        name=leaf.name,
        scope=leaf.scope,
        family=family,
        executions=executions,
        compute=executions * cycles.compute,
        exchange=executions * (cycles.exchange + cycles.collective),
        sync=executions * cycles.sync,
        host=host,
        fallback=isinstance(leaf, Superstep) and leaf.fallback,
    )


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


def _busiest(ran: Sequence[ProgramTotals]) -> tuple[int, dict[EventKind, int]]:
    """The IPU that did most, and its cycles by kind; IPU 0 if none did anything."""
    by_ipu: dict[int, Counter[EventKind]] = {}
    for totals in ran:
        for ipu, kinds in totals.cycles.items():
            by_ipu.setdefault(ipu, Counter()).update(kinds)
    busiest = max(sorted(by_ipu), key=lambda ipu: _own_cycles(by_ipu[ipu]), default=0)
    spent = by_ipu.get(busiest, Counter())
    return busiest, {kind: spent[kind] for kind in KINDS if spent[kind]}


def _loaded_on(ipu: int, ran: Sequence[ProgramTotals]) -> tuple[int, ...]:
    return tuple(totals.key for totals in ran if totals.cycles.get(ipu, {}).get("load"))


def _loaded_elsewhere(busiest: int, ran: Sequence[ProgramTotals]) -> tuple[Loading, ...]:
    loads, saves = Counter[int](), Counter[int]()
    for totals in ran:
        for ipu, kinds in totals.cycles.items():
            loads[ipu] += kinds.get("load", 0)
            saves[ipu] += kinds.get("save", 0)
    others = sorted((ipu for ipu in loads if loads[ipu] and ipu != busiest), key=lambda ipu: (-loads[ipu] - saves[ipu], ipu))
    return tuple(Loading(ipu=ipu, load_cycles=loads[ipu], save_cycles=saves[ipu], keys=_loaded_on(ipu, ran)) for ipu in others)


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


def _could_recompute(totals: ProgramTotals) -> bool:
    """By the scopes that JAX gives to what `jax.grad` and `jax.checkpoint` make."""
    return could_recompute(_scopes(totals))


def _scopes(totals: ProgramTotals) -> frozenset[str]:
    return frozenset(use.leaf.scope for use in totals.body.uses if use.leaf.scope)


def _reshaped(ran: Sequence[ProgramTotals]) -> Iterator[ShapesProfile]:
    """Programs of one name, with the same operations and arguments, that differ in what these arguments are."""
    functions: dict[tuple[object, ...], list[ProgramTotals]] = {}
    for totals in ran:
        program = totals.program
        called = tuple((argument.name, argument.on_host) for argument in program.arguments)
        functions.setdefault((program.name, program.num_ipus, called, len(program.results), _scopes(totals)), []).append(totals)
    for programs in functions.values():
        programs.sort(key=lambda totals: (-totals.runs, totals.key))
        columns = list(zip(*(totals.program.arguments for totals in programs), strict=True))
        differing = [column for column in columns if len({argument.shape for argument in column}) > 1]
        if not differing:
            continue
        largest = max(differing, key=lambda column: max(argument.size_bytes for argument in column))
        parts = [[argument.shape.partition("[") for argument in column] for column in differing]
        rests = [{(dtype, dims.partition(",")[2], dims == "]") for dtype, _, dims in column} for column in parts]
        batch = len(differing) < len(columns) and all(len(rest) == 1 for rest in rests)
        yield ShapesProfile(
            name=programs[0].program.name,
            keys=tuple(totals.key for totals in programs),
            argument=largest[0].name,
            shapes=tuple(argument.shape for argument in largest),
            differs="batch" if batch else "dtype" if any(len({d for d, _, _ in column}) > 1 for column in parts) else "shape",
        )


def _batches(start: Mark, end: Mark) -> tuple[BatchProfile, ...]:
    since = {batch: steps - start.accumulated.get(batch, 0) for batch, steps in end.accumulated.items()}
    return tuple(BatchProfile(**asdict(batch), steps=steps) for batch, steps in since.items() if steps)


def _assumptions(machine: MachineSpec, ran: Sequence[ProgramTotals], dropped: int) -> tuple[str, ...]:
    sentences = sorted({sentence for totals in ran for sentence in totals.program.assumptions})
    if any(isinstance(use.leaf, HostCall) for totals in ran for use in totals.body.uses):
        sentences.append("The host answers a callback, infeed or outfeed at once; only the transfers take time.")
    assumed = [entry.path for entry in describe(machine) if entry.basis == "assumed"]
    if ran and assumed:
        sentences.append(f"Assumed figures of {machine.name}: {names_text(assumed, most=8)}.")
    if dropped:
        sentences.append(f"The timeline leaves out the last {dropped:,} events; all figures count them.")
    return tuple(sentences)
