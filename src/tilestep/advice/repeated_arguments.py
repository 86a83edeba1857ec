"""Advice on arguments that the host puts at each call though their bytes are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.phrases import one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.figures.quantities import bytes_text, names_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.recording.edits.donation import kept, put_once
from tilestep.recording.edits.script import in_turn

_LEAST_CALLS: Final = 3  # the bytes of the first call are not compared with those of later ones


def repeated(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's programs that stream such arguments in."""
    if evidence is None:
        return
    for profile in figures.programs:
        indices = alike(evidence, profile.key) if profile.origin == "user" and profile.key in evidence.programs else frozenset[int]()
        again = {argument.index for argument in profile.streamed_again}
        found = [a for a in evidence.programs[profile.key].arguments if a.index in indices - again and a.result is None] if indices else []
        if not found:
            continue
        found.sort(key=lambda argument: -argument.size_bytes)
        names = names_text([f"{argument.name} {argument.shape}" for argument in found], most=3)
        roots = names_text([argument.name for argument in found], most=3)
        it = one_or(found, "it", "them")
        edit = f"put {roots} on the IPU once (jax.device_put), return {it} unchanged and donate {it}"
        size = bytes_text(sum(argument.size_bytes for argument in found))
        text = (
            f"{figures.label(profile.key)} streams {names} in at every call ({size} each time) from {one_or(found, 'an array', 'arrays')} "
            f"of the host with the same bytes each time: put {it} on the IPU once (jax.device_put), return {it} unchanged and "
            f"donate {it}, and {one_or(found, 'it stays', 'they stay')} there."
        )
        positions = [argument.index for argument in found]
        change = in_turn(put_once(profile.key, positions), kept(profile.key, positions))
        finding = Finding(kind="donation", text=text, line=evidence.line_of_call(profile.key))
        yield Proposal(finding=finding, ways=(Way(edit=edit, change=change, how="within 2 %"),), only_with_gain=True)


def alike(evidence: Evidence, key: int) -> frozenset[int]:
    """Positions of a program's arguments that the host puts at each call with the same bytes; those of which that is not known are not."""
    contents = evidence.host_lines.contents
    calls = [call.arguments for call in evidence.dispatches if call.key == key]
    if len(calls) < _LEAST_CALLS or not contents:
        return frozenset()
    found: set[int] = set()
    for index in range(len(evidence.programs[key].arguments)):
        values = [[row[index] for row in rows] for rows in calls]
        later = {contents.get(value, 0) for of_call in values[1:] for value in of_call}
        put = all(value in contents for of_call in values for value in of_call)
        if put and len(later) == 1 and 0 not in later and len({tuple(of_call) for of_call in values}) == len(values):
            found.add(index)
    return frozenset(found)


def never_new(evidence: Evidence, profile: ProgramProfile) -> frozenset[int]:
    """Positions of a program's arguments that have no batch: they never change, or are what a program makes of what it made before."""
    found = {argument.index for argument in profile.streamed_again} | alike(evidence, profile.key)
    calls = [call.arguments for call in evidence.dispatches if call.key == profile.key]
    for index in range(len(evidence.programs[profile.key].arguments)) if len(calls) > 1 else ():
        values = [rows[0][index] for rows in calls if rows]
        if len(set(values)) == 1 or 2 * sum(value in evidence.states for value in values) >= len(values):
            found.add(index)
    return frozenset(found)


def may_be_alike(evidence: Evidence, key: int, index: int) -> bool:
    """Whether nobody knows if an argument that comes with each call has the same bytes each time."""
    contents = evidence.host_lines.contents
    return any(not contents.get(row[index], 0) for call in evidence.dispatches if call.key == key for row in call.arguments)
