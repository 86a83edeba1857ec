"""What to do about a profile: the few findings that a summary leads with, most costly first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tilestep.report.profile import FamilyCycles, Profile, ProgramProfile, StreamedArgument
from tilestep.report.quantities import bytes_text, count_text, names_text, share_text

LOADS_DOMINATE: Final = 0.1  # of emulated time
NEARLY_FULL: Final = 0.85  # of a tile's memory
_STREAMING_NAMED: Final = 3  # programs; a script of short functions has hundreds that stream some bytes

FindingKind = Literal["memory", "loads", "donation", "limit", "idle", "fallback"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence or two: what was found, and the way out."""

    kind: FindingKind
    text: str


def findings(profile: Profile) -> tuple[Finding, ...]:
    """What to do first comes first: what does not fit, then what wastes time (idleness, if most of it is that), then what limits."""
    return (
        *_memory(profile),
        *_idle(profile),
        *_loads(profile),
        *_donation(profile),
        *_limit(profile),
        *_fallbacks(profile),
    )


def _memory(profile: Profile) -> Iterator[Finding]:
    tile_bytes = profile.machine.tile_sram_bytes
    users: list[tuple[str, int, tuple[tuple[str, int], ...], str]] = []
    for p in profile.programs:
        if p.runs:
            where = f", on tile {p.peak_tile:,} in superstep '{p.peak_step}'"
            users.append((f"program {profile.label(p.key)}", p.peak_tile_bytes, p.largest_tile_bytes, where))
    users += [(f"program group '{group.name}' on IPU {group.ipu}", group.peak_tile_bytes, (), "") for group in profile.groups]
    for what, peak, largest, where in sorted(users, key=lambda user: -user[1]):
        if peak <= NEARLY_FULL * tile_bytes:
            continue
        parts = f" Largest: {', '.join(f'{name} {bytes_text(size)}' for name, size in largest[:3])}." if largest else ""
        amount = f"{share_text(peak, tile_bytes)} of a tile ({bytes_text(peak)} of {bytes_text(tile_bytes)}{where})"
        if peak > tile_bytes:
            text = (
                f"{what} does not fit: it needs {amount}, and ran only because running out of memory was allowed.{parts} "
                "Try more IPUs, a smaller batch, donated arguments, jax.checkpoint or a smaller dtype."
            )
        else:
            text = f"{what} nearly fills its tiles: {amount}.{parts}"
        yield Finding(kind="memory", text=text)
    yield from _code(profile)
    yield from _streaming_memory(profile)


def _code(profile: Profile) -> Iterator[Finding]:
    available = profile.machine.tile_executable_bytes
    for program in profile.programs:
        needed = sum(size for kind, size in program.tile_bytes_by_kind if kind.endswith("code"))
        if program.runs and needed > available:
            yield Finding(
                kind="memory",
                text=f"program {profile.label(program.key)} has too much code: {bytes_text(needed)} a tile, which can execute "
                f"{bytes_text(available)}; it ran only because running out of memory was allowed. Try a loop over equal parts "
                "(jax.lax.scan over layers), several programs, or more IPUs.",
            )


def _streaming_memory(profile: Profile) -> Iterator[Finding]:
    available = profile.machine.streaming_memory_bytes
    for program in sorted(profile.programs, key=lambda program: -program.streaming_memory_bytes):
        if 0 < available < program.streaming_memory_bytes:
            text = (
                f"{profile.label(program.key)} does not fit into streaming memory: its values in pinned_host are "
                f"{bytes_text(program.streaming_memory_bytes)} for the IPUs of one IPU-Machine, which has {bytes_text(available)}. "
                "It ran only because running out of memory was allowed. Use more IPU-Machines or keep less there."
            )
            yield Finding(kind="memory", text=text)


def _loads(profile: Profile) -> Iterator[Finding]:
    spent = profile.cycles_by_kind.get("load", 0) + profile.cycles_by_kind.get("save", 0)
    if spent <= LOADS_DOMINATE * profile.emulated_cycles:
        return
    loaded = sorted((p for p in profile.programs if p.loads), key=lambda p: (-p.loads, -p.cycles.load))
    if not loaded:
        joined = sorted((p for p in profile.programs if p.cycles.load), key=lambda p: -p.cycles.load)
        names = names_text([profile.label(program.key) for program in joined], most=3)
        text = f"loading code took {share_text(spent, profile.emulated_cycles)} of emulated time: {names} joined a group that was "
        text += "loaded. A program is loaded once and pays for it by running often."
        yield Finding(kind="loads", text=text)
        return
    loads = sum(program.loads for program in loaded)
    took = f"{count_text(loads, 'program load')} took {share_text(spent, profile.emulated_cycles)} of emulated time"
    most = names_text([f"{profile.label(program.key)} ({program.loads:,})" for program in loaded], most=3)
    if any(program.loads > 1 for program in loaded):
        text = f"{took}: an IPU keeps one program and switching reloads. Most loads: {most}. Run short functions on cpu (jax.jit(..., "
        text += "backend='cpu')) or put them into the same jitted function."
    elif len(loaded) > 1:
        text = f"{took}: {most}. Each function is a program of its own: run short functions on cpu (jax.jit(..., backend='cpu')) "
        text += "or put them into one jitted function."
    else:
        ran = f"{profile.label(loaded[0].key)} ran {_times(loaded[0].runs)}"
        text = f"{took}: a program is loaded once and pays for it by running often; {ran}."
    yield Finding(kind="loads", text=text)


def _donation(profile: Profile) -> Iterator[Finding]:
    streaming = sorted((p for p in profile.programs if p.streamed_again), key=lambda program: -_streamed_bytes(program))
    for program in streaming[:_STREAMING_NAMED]:
        own = [argument for argument in program.streamed_again if argument.reason == "own result"]
        same = [argument for argument in program.streamed_again if argument.reason == "same value"]
        if own:
            yield Finding(
                kind="donation",
                text=f"{_arguments(profile, program, own)} though {_it(own, 'it is its', 'they are its')} own earlier result{_s(own)}: "
                f"donate {_it(own, 'it', 'them')} (donate_argnums) and {_it(own, 'it stays', 'they stay')} on the IPU.",
            )
        if same:
            yield Finding(
                kind="donation",
                text=f"{_arguments(profile, program, same)} with the same value{_s(same)}: return {_it(same, 'it', 'them')} unchanged and "
                f"donate {_it(same, 'it', 'them')}, and {_it(same, 'it stays', 'they stay')} on the IPU.",
            )
    rest = streaming[_STREAMING_NAMED:]
    if rest:
        size = bytes_text(sum(_streamed_bytes(program) for program in rest))
        they = f"{count_text(len(rest), 'more program')} {'streams' if len(rest) == 1 else 'stream'}"
        text = f"{they} arguments in again, {size} all together; the JSON profile has all."
        yield Finding(kind="donation", text=text)


def _arguments(profile: Profile, program: ProgramProfile, arguments: list[StreamedArgument]) -> str:
    largest = sorted(arguments, key=lambda argument: -argument.size_bytes)
    names = names_text([f"{argument.name} {argument.shape}" for argument in largest])
    size = bytes_text(sum(argument.size_bytes for argument in arguments))
    return f"{profile.label(program.key)} streams {names} in at every call ({size} each time)"


def _streamed_bytes(program: ProgramProfile) -> int:
    return sum(argument.size_bytes * argument.calls for argument in program.streamed_again)


def _limit(profile: Profile) -> Iterator[Finding]:
    slowest = max(profile.programs, key=_superstep_cycles, default=None)
    if slowest is None or not slowest.families or not slowest.families[0].total:
        return
    family = slowest.families[0]
    whole = sum(other.total for other in slowest.families)
    steps = [step for step in profile.supersteps if step.key == slowest.key and step.family == family.family]
    text = (
        f"The supersteps of {profile.label(slowest.key)}, the slowest program, take {share_text(whole, profile.emulated_cycles)} of "
        f"emulated time; {share_text(family.total, whole)} of that is {family.family}, limited by {_limited_by(family)}."
    )
    if steps:
        scope = f" from {steps[0].scope}" if steps[0].scope else ""
        text += f" Largest: {steps[0].name}{scope} ({share_text(steps[0].total, whole)})."
    yield Finding(kind="limit", text=text)


def _superstep_cycles(program: ProgramProfile) -> int:
    return sum(family.total for family in program.families)


def _limited_by(family: FamilyCycles) -> str:
    kinds = {"compute": family.compute, "exchange": family.exchange, "sync": family.sync}
    kinds["the host link"] = family.host
    kind = max(kinds, key=lambda name: kinds[name])
    ways_out = {
        "compute": "",
        "exchange": ": move less between tiles (larger operands per operation, smaller dtypes)",
        "sync": ": its operations are too small (a larger batch, fewer and larger operations)",
        "the host link": ": it stops for the host",
    }
    return f"{kind} ({share_text(kinds[kind], family.total)}){ways_out[kind]}"


def _idle(profile: Profile) -> Iterator[Finding]:
    if profile.idle_cycles * 2 <= profile.emulated_cycles or not profile.programs:
        return
    waits = f"IPU {profile.busiest_ipu}, the busiest, waits {share_text(profile.idle_cycles, profile.emulated_cycles)}"
    if profile.dispatch_cycles * 2 > profile.idle_cycles:
        text = (
            f"The host spends {share_text(profile.dispatch_cycles, profile.emulated_cycles)} of emulated time dispatching "
            f"{count_text(profile.dispatches, 'run')}, and {waits}: do more in each run (lax.scan, lax.fori_loop), and read results "
            "rarely, so that the host is ahead of the IPU."
        )
    else:
        text = (
            f"{waits} of emulated time for the host or other IPUs: dispatch more before reading, or do more per call (lax.scan, "
            "lax.fori_loop)."
        )
    yield Finding(kind="idle", text=text)


def _fallbacks(profile: Profile) -> Iterator[Finding]:
    ops = sorted({op for program in profile.programs for op in program.fallback_ops})
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
