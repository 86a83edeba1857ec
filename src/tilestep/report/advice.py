"""Advice on a profile: the few findings with which a summary begins, the most costly first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tilestep.plan.steps import CollectiveKind
from tilestep.report.figures import PINNED_HOST, FamilyCycles, Figures, ProgramProfile, StreamedArgument
from tilestep.report.quantities import bytes_text, count_text, names_text, share_text

LOADS_DOMINATE: Final = 0.1  # of emulated time
LEAST_SHARE: Final = 0.01  # of emulated time: the least that is worth a sentence
NEARLY_FULL: Final = 0.85  # of a tile's memory
_STREAMING_NAMED: Final = 3  # programs; a script of short functions has hundreds that stream some bytes

FindingKind = Literal["memory", "loads", "donation", "limit", "idle", "fallback"]


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

    Args:
        figures: the profile.
    """
    return (
        *_memory(figures),
        *_idle(figures),
        *_loads(figures),
        *_donation(figures),
        *_limit(figures),
        *_fallbacks(figures),
    )


def _memory(figures: Figures) -> Iterator[Finding]:
    tile_bytes = figures.machine.tile_sram_bytes
    allowed = "ran only because running out of memory was allowed"
    unknown = "nothing refused it, because which programs are in a group is known only when they run"
    users: list[tuple[str, int, tuple[tuple[str, int], ...], str, str]] = []
    for p in figures.programs:
        if p.runs:
            where = f", on tile {p.peak_tile:,} in superstep '{p.peak_step}'"
            users.append((f"program {figures.label(p.key)}", p.peak_tile_bytes, p.largest_tile_bytes, where, allowed))
    for group in figures.groups:
        members = [p for p in figures.programs if p.runs and p.origin == "group" and p.name in group.programs]
        reason = allowed if any(p.out_of_memory for p in members) else unknown
        users.append((f"program group '{group.name}' on IPU {group.ipu}", group.peak_tile_bytes, (), "", reason))
    for what, peak, largest, where, reason in sorted(users, key=lambda user: -user[1]):
        if peak <= NEARLY_FULL * tile_bytes:
            continue
        parts = f" Largest: {', '.join(f'{name} {bytes_text(size)}' for name, size in largest[:3])}." if largest else ""
        amount = f"{share_text(peak, tile_bytes)} of a tile ({bytes_text(peak)} of {bytes_text(tile_bytes)}{where})"
        if peak > tile_bytes:
            text = (
                f"{what} does not fit: it needs {amount}, and {reason}.{parts} "
                "Try more IPUs, a smaller batch, donated arguments, jax.checkpoint or a smaller dtype."
            )
        else:
            text = f"{what} nearly fills its tiles: {amount}.{parts}"
        yield Finding(kind="memory", text=text)
    yield from _code(figures)
    yield from _streaming_memory(figures)


def _code(figures: Figures) -> Iterator[Finding]:
    available = figures.machine.tile_executable_bytes
    for program in figures.programs:
        needed = sum(size for kind, size in program.tile_bytes_by_kind if kind.endswith("code"))
        if program.runs and needed > available:
            yield Finding(
                kind="memory",
                text=f"program {figures.label(program.key)} has too much code: {bytes_text(needed)} a tile, which can execute "
                f"{bytes_text(available)}; it ran only because running out of memory was allowed. Try a loop over equal parts "
                "(jax.lax.scan over layers), several programs, or more IPUs.",
            )


def _streaming_memory(figures: Figures) -> Iterator[Finding]:
    available = figures.machine.streaming_memory_bytes
    for program in sorted(figures.programs, key=lambda program: -program.streaming_memory_bytes):
        if 0 < available < program.streaming_memory_bytes:
            text = (
                f"{figures.label(program.key)} does not fit into streaming memory: its values in pinned_host are "
                f"{bytes_text(program.streaming_memory_bytes)} for the IPUs of one IPU-Machine, which has {bytes_text(available)}. "
                "It ran only because running out of memory was allowed. Use more IPU-Machines or keep less there."
            )
            yield Finding(kind="memory", text=text)


def _loads(figures: Figures) -> Iterator[Finding]:
    saving = figures.cycles_by_kind.get("save", 0)
    spent = figures.cycles_by_kind.get("load", 0) + saving
    if spent <= LOADS_DOMINATE * figures.emulated_cycles:
        return
    brought = [program for program in figures.programs if program.key in figures.loaded_on_busiest]
    loaded = sorted((p for p in brought if p.loads), key=lambda p: (-p.loads, -p.cycles.load))
    if loaded:
        yield Finding(kind="loads", text=_loaded(figures, loaded, spent, "and the values saved for them " if saving else ""))
    elif brought:
        joined = sorted(brought, key=lambda p: -p.cycles.load)
        names = names_text([figures.label(program.key) for program in joined], most=3)
        text = f"loading code took {share_text(spent, figures.emulated_cycles)} of emulated time: {names} joined a group that was "
        text += "loaded. A program is loaded once and pays for it by running often."
        yield Finding(kind="loads", text=text)


def _loaded(figures: Figures, loaded: list[ProgramProfile], spent: int, saved: str) -> str:
    """Args: loaded: programs that the busiest IPU loaded, at least one. saved: the part of `spent` in which values were saved."""
    loads = sum(program.loads for program in loaded)
    took = f"{count_text(loads, 'program load')} {saved}took {share_text(spent, figures.emulated_cycles)} of emulated time"
    alone = [program for program in loaded if program.origin != "group"]  # members of a group are one program already
    most = names_text([f"{figures.label(program.key)} ({program.loads:,})" for program in alone or loaded], most=3)
    if any(program.loads > 1 for program in loaded):
        text = f"{took}: an IPU keeps one program and switching reloads. Most loads: {most}. "
        if alone:
            return text + "Run short functions on cpu (jax.jit(..., backend='cpu')) or put them into the same jitted function."
        return text + "Run more steps between two switches."
    if len(alone) > 1:
        text = f"{took}: {most}. Each function is a program of its own: run short functions on cpu (jax.jit(..., backend='cpu')) "
        return text + "or put them into one jitted function."
    ran = f"; {figures.label(loaded[0].key)} ran {_times(loaded[0].runs)}" if len(loaded) == 1 else ""
    return f"{took}: a program is loaded once and pays for it by running often{ran}."


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
