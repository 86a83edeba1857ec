"""Advice on a profile: the few findings with which a summary begins, the most costly first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tilestep.machine.catalog import DEFAULT_MACHINE, named_machine
from tilestep.plan.steps import CollectiveKind
from tilestep.report.figures import (
    PINNED_HOST,
    FamilyCycles,
    Figures,
    GroupProfile,
    Origin,
    ProgramProfile,
    ShapesProfile,
    StreamedArgument,
)
from tilestep.report.quantities import bytes_text, count_text, names_text, share_text

LOADS_DOMINATE: Final = 0.1  # of emulated time
LEAST_SHARE: Final = 0.01  # of emulated time: the least that is worth a sentence
NEARLY_FULL: Final = 0.85  # of a tile's memory
CPU_DEFAULT: Final = "jax.default_device(jax.devices('cpu')[0])"  # its results may go on to an IPU; those of jit(backend='cpu') stay
_UNKNOWN_MEMBERS: Final = "nothing refused it, because which programs are in a group is known only when they run"
_STREAMING_NAMED: Final = 3  # programs; a script of short functions has hundreds that stream some bytes

FindingKind = Literal["memory", "loads", "donation", "limit", "idle", "unused", "fallback"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding about a profile, with a way out.

    Attributes:
        kind: 'memory', 'loads', 'donation', 'limit', 'idle' or 'fallback'.
        text: one sentence or two.
    """

    kind: FindingKind
    text: str


def findings(figures: Figures) -> tuple[Finding, ...]:
    """What to do about a profile, the most urgent first.

    Programs that do not fit come first, then waste of time (idle time, if most of it is that), then the limits of the largest program.
    IPUs that nothing used come late, because most programs are for one.

    Args:
        figures: the profile.
    """
    return (
        *_memory(figures),
        *_idle(figures),
        *_loads(figures),
        *_donation(figures),
        *_limit(figures),
        *_unused(figures),
        *_fallbacks(figures),
    )


def _memory(figures: Figures) -> Iterator[Finding]:
    tile_bytes = figures.machine.tile_sram_bytes
    of_jax = [p for p in figures.programs if p.runs and p.origin == "jax" and p.peak_tile_bytes > tile_bytes]
    users: list[tuple[str, int, tuple[tuple[str, int], ...], str, str, list[str]]] = []
    for p in figures.programs:
        if p.runs and p.origin != "jax":
            where = f", on tile {p.peak_tile:,} in superstep '{p.peak_step}'"
            label, ways = f"program {figures.label(p.key)}", _ways_to_fit(figures, p)
            users.append((label, p.peak_tile_bytes, p.largest_tile_bytes, where, _why_it_ran(p), ways))
    for group in figures.groups:
        members = _members(figures, group)
        oversized = [p for p in members if p.out_of_memory]
        reason = _why_it_ran(oversized[0]) if oversized else _UNKNOWN_MEMBERS
        label, ways = f"program group '{group.name}' on IPU {group.ipu}", _ways_to_fit(figures, *members)
        users.append((label, group.peak_tile_bytes, (), "", reason, ways))
    for what, peak, largest, where, reason, ways in sorted(users, key=lambda user: -user[1]):
        if peak <= NEARLY_FULL * tile_bytes:
            continue
        parts = f" Largest: {', '.join(f'{name} {bytes_text(size)}' for name, size in largest[:3])}." if largest else ""
        amount = f"{share_text(peak, tile_bytes)} of a tile ({bytes_text(peak)} of {bytes_text(tile_bytes)}{where})"
        if peak > tile_bytes:
            text = f"{what} does not fit: it needs {amount}, and {reason}.{parts} Try: {', '.join(ways)}."
        else:
            text = f"{what} nearly fills its tiles: {amount}.{parts}"
        yield Finding(kind="memory", text=text)
    if of_jax:
        largest = max(of_jax, key=lambda p: p.peak_tile_bytes)
        others = f" (nor {'does' if len(of_jax) == 2 else 'do'} {count_text(len(of_jax) - 1, 'other')})" if len(of_jax) > 1 else ""
        text = (
            f"program {figures.label(largest.key)}, a single operation outside of jit, does not fit{others}: it needs "
            f"{share_text(largest.peak_tile_bytes, tile_bytes)} of a tile, and {_why_it_ran(largest)}. Make such arrays in the jitted "
            f"function that uses them, or under {CPU_DEFAULT}."
        )
        yield Finding(kind="memory", text=text)
    yield from _code(figures)
    yield from _streaming_memory(figures)


def _why_it_ran(program: ProgramProfile) -> str:
    return "in a dry run this is no error" if program.dry else "ran only because running out of memory was allowed"


def _ways_to_fit(figures: Figures, *programs: ProgramProfile) -> list[str]:
    """What is not done yet, as far as the profile can tell. Of a group its author chose what is donated."""
    machine, used = figures.machine, max((p.num_ipus for p in programs), default=1)
    idle = len(programs) == 1 and used < machine.num_ipus
    ways = [f"arrays divided over the machine's {machine.num_ipus} IPUs (shardings)" if idle else "more IPUs", "a smaller batch"]
    names = [name for p in programs if p.origin != "group" for name in p.not_donated]
    if names:
        ways.append(f"donated arguments (donate_argnums: {names_text(names, most=3)})")
    if any(p.could_recompute for p in programs):
        ways.append("jax.checkpoint")
    return [*ways, "a smaller dtype"]


def _members(figures: Figures, group: GroupProfile) -> list[ProgramProfile]:
    return [p for p in figures.programs if p.runs and p.group == group.name]


def _code(figures: Figures) -> Iterator[Finding]:
    available = figures.machine.tile_executable_bytes
    for program in figures.programs:
        needed = sum(size for kind, size in program.tile_bytes_by_kind if kind.endswith("code"))
        if program.runs and needed > available:
            yield Finding(
                kind="memory",
                text=f"program {figures.label(program.key)} has too much code: {bytes_text(needed)} a tile, which can execute "
                f"{bytes_text(available)}, and {_why_it_ran(program)}. Try a loop over equal parts (jax.lax.scan over layers) or several "
                "programs.",
            )


def _streaming_memory(figures: Figures) -> Iterator[Finding]:
    available = figures.machine.streaming_memory_bytes
    for program in sorted(figures.programs, key=lambda program: -program.streaming_memory_bytes):
        if 0 < available < program.streaming_memory_bytes:
            text = (
                f"{figures.label(program.key)} does not fit into streaming memory: its values in pinned_host are "
                f"{bytes_text(program.streaming_memory_bytes)} for the IPUs of one IPU-Machine, which has {bytes_text(available)}, and "
                f"{_why_it_ran(program)}. Use more IPU-Machines or keep less there."
            )
            yield Finding(kind="memory", text=text)


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """What an IPU keeps as one program: a program, or a group of them."""

    label: str
    function: str  # the same for programs that are one function, called with other shapes
    origin: Origin
    loads: int
    runs: int
    cycles: int  # of its loads


def _loads(figures: Figures) -> Iterator[Finding]:
    """The larger part of the loads first, of operations outside of jit or of the others; the smaller part if it matters as well."""
    saving = figures.cycles_by_kind.get("save", 0)
    spent = figures.cycles_by_kind.get("load", 0) + saving
    if spent <= LOADS_DOMINATE * figures.emulated_cycles:
        return
    units = _loaded(figures)
    single, others = [unit for unit in units if unit.origin == "jax"], [unit for unit in units if unit.origin != "jax"]
    parts = [(part, _cycles(part)) for part in (single, others) if part]
    total = sum(unit.loads for unit in units)
    if units and not total:
        brought = sorted((p for p in figures.programs if p.key in figures.loaded_on_busiest), key=lambda p: -p.cycles.load)
        joined = names_text([figures.label(program.key) for program in brought], most=3)
        text = f"loading code took {share_text(spent, figures.emulated_cycles)} of emulated time: {joined} joined a group that was loaded. "
        yield Finding(kind="loads", text=text + "A program is loaded once and pays for it by running often.")
        return
    saved = "and the values saved for them " if saving else ""
    head = f"{count_text(total, 'program load')} {saved}took {share_text(spent, figures.emulated_cycles)} of emulated time"
    for part, cycles in sorted(parts, key=lambda part: -part[1]):
        loads = sum(unit.loads for unit in part)
        are = "is" if loads == 1 else "are"
        what = "single operations outside of jit" if part is single else "jitted functions"
        text = _single_operations(part) if part is single else _switching(figures, part)
        if len(parts) == 1:
            yield Finding(kind="loads", text=f"{head}, all of {what}: {text}" if part is single else f"{head}: {text}")
        elif cycles == max(of for _, of in parts):
            yield Finding(kind="loads", text=f"{head}; {loads:,} of them {are} of {what}: {text}")
        elif cycles > LOADS_DOMINATE * figures.emulated_cycles and (part is single or len({unit.function for unit in part}) < loads):
            yield Finding(kind="loads", text=f"{loads:,} of the {total:,} program loads {are} of {what}: {text}")


def _cycles(units: list[_Loaded]) -> int:
    return sum(unit.cycles for unit in units)


def _loaded(figures: Figures) -> list[_Loaded]:
    """Of the busiest IPU, those with most loads first. The first member of a group that runs loads it; later ones bring their code."""
    brought = [program for program in figures.programs if program.key in figures.loaded_on_busiest]
    functions = {key: f"{function.name} {number}" for number, function in enumerate(figures.reshaped) for key in function.keys}
    units = [
        _Loaded(
            label=figures.label(p.key),
            function=functions.get(p.key, figures.label(p.key)),
            origin=p.origin,
            loads=p.loads,
            runs=p.runs,
            cycles=p.cycles.load,
        )
        for p in brought
        if p.origin != "group" and p.loads
    ]
    for group in figures.groups:
        members = [p for p in brought if p.group == group.name]
        members.sort(key=lambda p: p.cycles.load - p.cycles.total)  # the helper that is loaded first is not what the group is for
        if members:
            names = names_text(list(dict.fromkeys(p.name for p in members)), most=1)
            label = f"program group '{group.name}' with {names}"
            loads, cycles = sum(p.loads for p in members), sum(p.cycles.load for p in members)
            runs = max(p.runs for p in members)
            units.append(_Loaded(label=label, function=label, origin="group", loads=loads, runs=runs, cycles=cycles))
    return sorted(units, key=lambda unit: (-unit.loads, -unit.cycles))


def _single_operations(units: list[_Loaded]) -> str:
    if len(units) == 1:
        return (
            f"{units[0].label} is a program of its own. Put it into a jitted function with its neighbours, or run it under {CPU_DEFAULT}."
        )
    names = names_text(list(dict.fromkeys(unit.label.partition(" #")[0] for unit in units)), most=2)
    return (
        f"each is a program of its own ({names}). Put those that belong together, such as a model's initialisation, into one jitted "
        f"function, or run them under {CPU_DEFAULT}."
    )


def _switching(figures: Figures, units: list[_Loaded]) -> str:
    alone = [unit for unit in units if unit.origin != "group"]  # a group is one program already
    most = names_text([f"{unit.label} ({unit.loads:,})" for unit in alone or units], most=3)
    labels = {unit.label for unit in alone}
    shapes = [f"{_other_shapes(function)} " for function in figures.reshaped if labels & {figures.label(key) for key in function.keys}]
    way_out = f"Run short functions under {CPU_DEFAULT}, or put them into one jitted function." if len(alone) > 1 else ""
    if shapes and len({unit.function for unit in alone}) == 1:
        way_out = ""  # they are one jitted function
    if any(unit.loads > 1 for unit in units):
        text = f"an IPU keeps one program and switching reloads. Most loads: {most}. {''.join(shapes)}{way_out}".rstrip()
        return text if alone else f"{text} Run more steps between two switches."
    if len(alone) > 1:
        each = "" if shapes and not way_out else "Each function is a program of its own. "
        return f"{most}. {''.join(shapes)}{each}{way_out}".rstrip()
    ran = f"; {units[0].label} ran {_times(units[0].runs)}" if len(units) == 1 else ""
    return f"a program is loaded once and pays for it by running often{ran}."


def _other_shapes(function: ShapesProfile) -> str:
    shapes = list(dict.fromkeys(function.shapes))
    way_out = {
        "batch": "pad or drop the smaller batch",
        "dtype": "call it with one dtype",
        "shape": "pad to one shape, or make these calls in one jitted function",
    }[function.differs]
    was = " and ".join(shapes) if len(shapes) == 2 else names_text(shapes, most=3)
    return f"{function.name} is {len(function.keys)} programs, because its argument {function.argument} was {was}: {way_out}."


def _donation(figures: Figures) -> Iterator[Finding]:
    """Advice to donate, for programs whose caller can donate arguments, if donation would shorten the emulated time.

    The host's time to dispatch all runs stays, so donation saves nothing if that is all of the time.
    """
    at_stake = figures.emulated_cycles - figures.dispatch_cycles
    worth_it = LEAST_SHARE * figures.emulated_cycles
    streaming = [p for p in figures.programs if p.origin == "user" and at_stake >= worth_it and _streamed_cycles(p) >= worth_it]
    streaming.sort(key=lambda program: -_streamed_bytes(program))
    for program in streaming[:_STREAMING_NAMED]:
        own = [argument for argument in program.streamed_again if argument.reason == "own result"]
        same = [argument for argument in program.streamed_again if argument.reason == "same value"]
        if own:
            yield Finding(
                kind="donation",
                text=f"{_arguments(figures, program, own)} though {_it(own, 'it is its', 'they are its')} own earlier result{_s(own)}: "
                f"donate {_it(own, 'it', 'them')} (donate_argnums) and {_it(own, 'it stays', 'they stay')} on the IPU.",
            )
        if same:
            yield Finding(
                kind="donation",
                text=f"{_arguments(figures, program, same)} with the same value{_s(same)}: return {_it(same, 'it', 'them')} unchanged and "
                f"donate {_it(same, 'it', 'them')}, and {_it(same, 'it stays', 'they stay')} on the IPU.",
            )
    rest = streaming[_STREAMING_NAMED:]
    if rest:
        size = bytes_text(sum(_streamed_bytes(program) for program in rest))
        they = f"{count_text(len(rest), 'more program')} {'streams' if len(rest) == 1 else 'stream'}"
        text = f"{they} arguments in again, {size} all together; the JSON profile has all."
        yield Finding(kind="donation", text=text)


def _arguments(figures: Figures, program: ProgramProfile, arguments: list[StreamedArgument]) -> str:
    largest = sorted(arguments, key=lambda argument: -argument.size_bytes)
    names = names_text([f"{argument.name} {argument.shape}" for argument in largest])
    size = bytes_text(sum(argument.size_bytes for argument in arguments))
    calls = min(argument.calls for argument in arguments) // program.num_ipus
    first = max(program.loads, 1)  # the first call after a load has to bring them
    often = "at every call" if calls >= program.runs - first else f"at {calls:,} of {program.runs:,} calls"
    return f"{figures.label(program.key)} streams {names} in {often} ({size} each time)"


def _streamed_cycles(program: ProgramProfile) -> int:
    return sum(argument.cycles for argument in program.streamed_again)


def _streamed_bytes(program: ProgramProfile) -> int:
    return sum(argument.size_bytes * argument.calls for argument in program.streamed_again)


def _limit(figures: Figures) -> Iterator[Finding]:
    longest = max(figures.programs, key=_superstep_cycles, default=None)
    if longest is None or not longest.families or not longest.families[0].total:
        return
    whole = _superstep_cycles(longest)
    if whole < LEAST_SHARE * figures.emulated_cycles:
        return
    family = longest.families[0]
    steps = [step for step in figures.supersteps if step.key == longest.key and step.family == family.family]
    is_slowest = longest.cycles.total == max(program.cycles.total for program in figures.programs)
    which = "the slowest program" if is_slowest else "the longest of any program"
    text = (
        f"The supersteps of {figures.label(longest.key)}, {which}, take {share_text(whole, figures.emulated_cycles)} of "
        f"emulated time; {share_text(family.total, whole)} of that is {family.family}, limited by {_limited_by(family)}."
    )
    if steps:
        scope = f" from {steps[0].scope}" if steps[0].scope else ""
        text += f" Largest: {steps[0].name}{scope} ({share_text(steps[0].total, whole)})."
    yield Finding(kind="limit", text=text)


def _superstep_cycles(program: ProgramProfile) -> int:
    return sum(family.total for family in program.families)


def _limited_by(family: FamilyCycles) -> str:
    kind, cycles = max(
        (("compute", family.compute), ("exchange", family.exchange), ("sync", family.sync), ("host", family.host)), key=lambda part: part[1]
    )
    between_ipus = family.family in get_args(CollectiveKind)
    if kind == "exchange":
        name = "exchange between IPUs" if between_ipus else "exchange"
        way_out = "send less between IPUs (smaller dtypes, an exchange after more steps)"
        way_out = way_out if between_ipus else "move less between tiles (larger operands per operation, smaller dtypes)"
    elif kind == "sync":
        name, way_out = "sync", "its operations are too small (a larger batch, fewer and larger operations)"
        way_out = "its exchanges are too small (fewer and larger ones)" if between_ipus else way_out
    elif kind == "host" and family.family == PINNED_HOST:
        name, way_out = "values in pinned_host", "it stops for them (keep fewer values there, or use them less often)"
    elif kind == "host":
        name, way_out = "the host link", "it stops for the host"
    else:
        name, way_out = "compute", ""
    return f"{name} ({share_text(cycles, family.total)}){': ' if way_out else ''}{way_out}"


def _idle(figures: Figures) -> Iterator[Finding]:
    if figures.idle_cycles * 2 <= figures.emulated_cycles or not figures.programs:
        return
    waits = f"IPU {figures.busiest_ipu}, the busiest, waits {share_text(figures.idle_cycles, figures.emulated_cycles)}"
    if figures.dispatch_cycles * 2 > figures.emulated_cycles:  # no work of the IPUs hides that
        text = (
            f"The host spends {share_text(figures.dispatch_cycles, figures.emulated_cycles)} of emulated time dispatching "
            f"{count_text(figures.dispatches, 'run')}, and {waits}: do more in each run (lax.scan, lax.fori_loop), and read results "
            "rarely, so that the host is ahead of the IPU."
        )
    else:
        text = (
            f"{waits} of emulated time for the host or other IPUs: dispatch more before reading, do more per call (lax.scan, "
            "lax.fori_loop), or give the IPUs work that does not wait for each other's (microbatches)."
        )
    yield Finding(kind="idle", text=text)


def _unused(figures: Figures) -> Iterator[Finding]:
    """Only of a machine that somebody asked for: the default one has several IPUs for programs that use one."""
    machine, used = figures.machine, figures.num_ipus_used
    default = named_machine(DEFAULT_MACHINE)
    if 0 < used < machine.num_ipus and (machine.name, machine.num_ipus) != (default.name, default.num_ipus):
        were = "was" if used == 1 else "were"
        yield Finding(
            kind="unused",
            text=f"{used:,} of {machine.num_ipus:,} IPUs {were} used. Divide arrays over all of them (jax.sharding), or use Replicas or "
            "Pipeline of tilestep.train.",
        )


def _fallbacks(figures: Figures) -> Iterator[Finding]:
    ops = sorted({op for program in figures.programs for op in program.fallback_ops})
    if ops:
        yield Finding(
            kind="fallback",
            text=f"{count_text(len(ops), 'operation')} without an estimator of {_it(ops, 'its', 'their')} own, priced roughly: "
            f"{names_text(ops, most=6)}.",
        )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _it(things: list[StreamedArgument] | list[str], one: str, several: str) -> str:
    return one if len(things) == 1 else several


def _s(things: list[StreamedArgument]) -> str:
    return "" if len(things) == 1 else "s"
