"""Advice on values in pinned_host that would fit into the tiles."""

from collections.abc import Iterator, Sequence
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.memory.full_tiles import NEARLY_FULL
from tilestep.advice.phrases import group_text, one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import made_at, root_of
from tilestep.figures.quantities import bytes_text, names_text, share_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.plan.steps import Argument
from tilestep.recording.edits.programs import in_tiles
from tilestep.recording.edits.script import with_changed
from tilestep.units import ceil_div

_PIPELINES: Final = frozenset({"Pipeline"})


def offload(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs, or groups of programs, whose tiles have room for what they keep in pinned_host."""
    units: dict[str, list[ProgramProfile]] = {}
    for profile in figures.programs if evidence is not None else ():
        if profile.runs:
            units.setdefault(group_text(profile.group) if profile.group else figures.label(profile.key), []).append(profile)
    for label, members in units.items():
        assert evidence is not None  # else there would be no unit
        proposal = _proposal(figures, evidence, label, members)
        if proposal is not None:
            yield proposal


def _proposal(figures: Figures, evidence: Evidence, label: str, members: Sequence[ProgramProfile]) -> Proposal | None:
    programs = {p.key: evidence.programs[p.key] for p in members if p.key in evidence.programs}
    anew = {p.key: _given_anew(evidence, p.key) for p in members if p.group and p.key in programs}
    away = {key: [a for a in program.arguments if a.on_host and a.index not in anew.get(key, ())] for key, program in programs.items()}
    arguments = [argument for of_program in away.values() for argument in of_program]
    if not arguments:
        return None
    tile_bytes = figures.machine.tile_sram_bytes
    beside = max((group.peak_tile_bytes for group in figures.groups if group.name == members[0].group), default=0)
    whole = max(
        max(p.peak_tile_bytes, beside) + ceil_div(_size(away[p.key]), figures.machine.num_tiles - programs[p.key].num_io_tiles)
        for p in members
        if away.get(p.key)
    )
    if whole > NEARLY_FULL * tile_bytes:
        return None
    names = names_text(list(dict.fromkeys(a.name for a in sorted(arguments, key=lambda a: -a.size_bytes))), most=2)
    it = one_or(arguments, "it", "them")
    in_pipeline = members[0].group.startswith("pipeline ")  # which donates by itself
    edit = f"keep {names} on the IPU"
    text = (
        f"{label} keeps {names} ({bytes_text(_size(arguments))}) in pinned_host, though its fullest tile would be "
        f"{share_text(whole, tile_bytes)} full with {it}: keep {it} on the IPU, donated."
    )
    if in_pipeline and not any(root_of(argument.name) == "args[0]" for argument in arguments):  # which are parameters
        edit = "keep the optimiser's state on the IPUs (offload_optimizer_state=False)"
        text = (
            f"The optimiser's state of {label} ({bytes_text(_size(arguments))}) is offloaded, the default on platform ipu. It fits: the "
            f"fullest tile would be {share_text(whole, tile_bytes)} full with it."
        )
    keys = [key for key, found in away.items() if found]
    change = with_changed(keys, in_tiles)
    line = evidence.line_of_call(keys[0])
    if in_pipeline:
        line = made_at(programs[keys[0]], _PIPELINES) or line
    basis = "without the transfers to pinned_host and back"
    way = Way(edit=edit, change=change, how="about", basis=basis)
    return Proposal(finding=Finding(kind="offload", text=text, line=line), ways=(way,), only_with_gain=True)


def _given_anew(evidence: Evidence, key: int) -> frozenset[int]:
    """Positions of a program's arguments that are another value at each run and no result of it: data, of which nothing can be kept.

    A session of PopART has its inputs in pinned_host, and takes them slice by slice.
    """
    rows = [row for call in evidence.dispatches if call.key == key for row in call.arguments[:1]]
    made = {value for call in evidence.dispatches for results in call.results for value in results}
    columns = [[row[index] for row in rows] for index in range(len(evidence.programs[key].arguments))]
    return frozenset(n for n, column in enumerate(columns) if len(set(column)) == len(column) and made.isdisjoint(column))


def _size(arguments: Sequence[Argument]) -> int:
    return sum(argument.size_bytes for argument in arguments)
