"""Advice on memory: programs and groups that do not fit, or nearly fill their tiles, and what would free some of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.memory.remedies import GENERAL, OF_CODE, Remedies, remedies
from tilestep.advice.memory.savings import Freed, freed_of
from tilestep.advice.phrases import CPU_DEFAULT, group_text, is_loop, named
from tilestep.advice.proposal import Proposal
from tilestep.figures.quantities import bytes_text, count_text, share_text
from tilestep.figures.records import Figures, GroupProfile, ProgramProfile

NEARLY_FULL: Final = 0.85  # share of a tile's memory
_GENERAL: Final = Remedies(text=GENERAL)
_UNKNOWN_MEMBERS: Final = "nothing refused it, because which programs are in a group is known only when they run"


@dataclass(frozen=True, kw_only=True)
class _User:
    """What fills a tile: a program, or a group of them."""

    what: str
    peak_bytes: int
    largest: tuple[tuple[str, int], ...]
    where: str
    reason: str  # why it ran if it does not fit
    remedies: Remedies = _GENERAL
    freed: tuple[Freed, ...] = ()
    edit: str = ""
    unknown: str = ""
    line: Line | None = None


def memory(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs, groups and single operations that do not fit or nearly fill their tiles, the fullest first."""
    tile_bytes = figures.machine.tile_sram_bytes
    of_jax = [p for p in figures.programs if p.runs and p.origin == "jax" and p.peak_tile_bytes > tile_bytes]
    for user in sorted(_users(figures, evidence), key=lambda user: -user.peak_bytes):
        parts = f" Largest: {', '.join(f'{name} {bytes_text(size)}' for name, size in user.largest[:3])}." if user.largest else ""
        amount = (
            f"{share_text(user.peak_bytes, tile_bytes)} of a tile ({bytes_text(user.peak_bytes)} of {bytes_text(tile_bytes)}{user.where})"
        )
        if user.peak_bytes > tile_bytes:
            amount += f", {user.peak_bytes - tile_bytes:,} B too many"
            text = f"{user.what} does not fit: it needs {amount}, and {user.reason}.{parts} {user.remedies.text}"
        else:
            free = f" It fits; if it has to grow, this frees some: {', '.join(map(str, user.freed))}." if user.freed else ""
            text = f"{user.what} nearly fills its tiles: {amount}.{parts}{free}"
        urgent, best = user.peak_bytes > tile_bytes, user.remedies.best
        finding = Finding(kind="memory", text=text, urgent=urgent, line=user.line)
        if best is not None:
            finding = replace(finding, edit=best.edit, line=best.line, gain=best.gain)
        elif urgent:
            finding = replace(finding, edit=user.edit, unknown=user.unknown)
        yield Proposal(finding=finding)
    if of_jax:
        largest = max(of_jax, key=lambda p: p.peak_tile_bytes)
        others = f" (nor {'does' if len(of_jax) == 2 else 'do'} {count_text(len(of_jax) - 1, 'other')})" if len(of_jax) > 1 else ""
        line = _line_of(largest, evidence)
        text = (
            f"program {figures.label(largest.key)}, a single operation outside of jit{'' if line is None else f' at {line}'}, does not "
            f"fit{others}: "
            f"it needs {share_text(largest.peak_tile_bytes, tile_bytes)} of a tile, and {_why_it_ran(largest)}. Make such arrays in the "
            f"jitted function that uses them, or under {CPU_DEFAULT}."
        )
        yield Proposal(finding=Finding(kind="memory", text=text, urgent=True, line=line))
    yield from _code(figures, evidence)
    yield from _streaming_memory(figures, evidence)


def _users(figures: Figures, evidence: Evidence | None) -> Iterator[_User]:
    least = NEARLY_FULL * figures.machine.tile_sram_bytes
    for p in figures.programs:
        if p.runs and p.origin != "jax" and p.peak_tile_bytes > least:
            over = p.peak_tile_bytes > figures.machine.tile_sram_bytes
            found, ways = _GENERAL, tuple[Freed, ...]()
            if evidence is not None and (program := evidence.programs.get(p.key)) is not None:
                source = evidence.sources.get(p.key)
                if over:
                    found = remedies(program, source, evidence.machine, could_recompute=p.could_recompute)
                elif source is not None:
                    ways = freed_of(program, source, evidence.machine, could_recompute=p.could_recompute)
            yield _User(
                what=f"program {figures.label(p.key)}",
                peak_bytes=p.peak_tile_bytes,
                largest=p.largest_tile_bytes,
                where=f", on tile {p.peak_tile:,} in superstep '{p.peak_step}'",
                reason=_why_it_ran(p),
                remedies=found,
                freed=ways,
                unknown=found.unknown,
                line=_line_of(p, evidence),
            )
    for group in figures.groups:
        if group.peak_tile_bytes > least:
            members = _members(figures, group)
            oversized = [p for p in members if p.out_of_memory]
            yield _User(
                what=f"{group_text(group.name)} on IPU {group.ipu}",
                peak_bytes=group.peak_tile_bytes,
                largest=tuple((figures.label(p.key), p.peak_tile_bytes) for p in sorted(members, key=lambda p: -p.peak_tile_bytes)),
                where="",
                reason=_why_it_ran(oversized[0]) if oversized else _UNKNOWN_MEMBERS,
                edit=f"give {group_text(group.name)} a smaller batch"
                if is_loop(group.name)
                else f"give {group.name} smaller microbatches or more stages",
                unknown="" if evidence is None else "its programs share the tiles, and are not planned again together",
                line=next(filter(None, (_line_of(p, evidence) for p in members)), None),
            )


def _line_of(program: ProgramProfile, evidence: Evidence | None) -> Line | None:
    return None if evidence is None else evidence.line_of_call(program.key)


def _why_it_ran(program: ProgramProfile) -> str:
    return "in a dry run this is no error" if program.dry else "ran only because running out of memory was allowed"


def _members(figures: Figures, group: GroupProfile) -> list[ProgramProfile]:
    return [p for p in figures.programs if p.runs and p.group == group.name]


def _code(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    available = figures.machine.tile_executable_bytes
    for program in figures.programs:
        needed = sum(size for kind, size in program.tile_bytes_by_kind if kind.endswith("code"))
        if program.runs and needed > available:
            text = (
                f"program {named(figures, evidence, program.key)} has too much code: {bytes_text(needed)} a tile, which can execute "
                f"{bytes_text(available)}, and {_why_it_ran(program)}. {OF_CODE}"
            )
            yield Proposal(finding=Finding(kind="memory", text=text, urgent=True, line=_line_of(program, evidence)))


def _streaming_memory(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    available = figures.machine.streaming_memory_bytes
    for program in sorted(figures.programs, key=lambda program: -program.streaming_memory_bytes):
        if 0 < available < program.streaming_memory_bytes:
            text = (
                f"{named(figures, evidence, program.key)} does not fit into streaming memory: its values in pinned_host are "
                f"{bytes_text(program.streaming_memory_bytes)} for the IPUs of one IPU-Machine, which has {bytes_text(available)}, and "
                f"{_why_it_ran(program)}. Use more IPU-Machines, divide "
                "arrays among the IPUs (jax.sharding) in place of a copy for each, or keep less there."
            )
            yield Proposal(finding=Finding(kind="memory", text=text, urgent=True, line=_line_of(program, evidence)))
