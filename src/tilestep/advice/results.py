"""Advice on results that leave the IPU though nobody uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.jits import jit_of
from tilestep.advice.phrases import one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.figures.quantities import bytes_text, names_text
from tilestep.figures.records import Figures
from tilestep.recording.edits.reads import without_results
from tilestep.recording.edits.script import used
from tilestep.sim.calls import Dispatch, Forget, Read

_LEAST_CALLS = 3  # a program that ran less often may be used after the profile


def results(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Results of each of the user's programs that stream out at each call, and that no call uses before they are forgotten."""
    if evidence is None or _leaves_reads_out(figures, evidence):
        return
    unread = _unread(evidence)
    for profile in figures.programs:
        program = evidence.programs.get(profile.key)
        wasted = [r for r in program.results if r.index in unread.get(profile.key, ()) and r.argument is None] if program else []
        if program is None or profile.origin != "user" or not wasted:
            continue
        largest = sorted(wasted, key=lambda result: -result.size_bytes)
        names = names_text([f"result {result.index} {result.shape}" for result in largest], most=3)
        size = bytes_text(sum(result.size_bytes for result in wasted) * profile.num_ipus)
        it = one_or(wasted, "it", "them")
        text = (
            f"{figures.label(profile.key)} sends {names} to the host at every call ({size} each time), and nobody reads "
            f"{it} or gives {it} to a program: do not return {it}."
        )
        edit = f"do not return {names_text([result.shape for result in largest], most=3)} from {figures.label(profile.key)}"
        yield Proposal(
            finding=Finding(kind="results", text=text, edit=edit, line=jit_of(program).returns or evidence.line_of_call(profile.key)),
            ways=(
                Way(
                    edit=edit,
                    change=without_results(profile.key, [result.index for result in wasted]),
                    how="about",
                    basis="without what the program computes for them",
                ),
            ),
        )


def _leaves_reads_out(figures: Figures, evidence: Evidence) -> bool:
    """Whether it is a dry run, and none of its values is read: most cannot be there, so nothing says which ones the program is for."""
    return any(program.dry for program in figures.programs) and not any(isinstance(call, Read) for call in evidence.calls)


def _unread(evidence: Evidence) -> dict[int, set[int]]:
    """By program, the positions of results that are forgotten unused after every call but the last."""
    needed = {value for call in evidence.calls for value in used(call)}
    forgotten = {call.value for call in evidence.calls if isinstance(call, Forget)}
    calls = Counter(call.key for call in evidence.dispatches)
    left = dict(calls)
    unread: dict[int, set[int]] = {}
    for call in evidence.dispatches:
        left[call.key] -= 1
        if calls[call.key] < _LEAST_CALLS:
            continue
        found = unread.setdefault(call.key, set(range(len(call.results[0]))) if call.results else set())
        found -= {index for index in found if not _is_unread(call, index, needed, forgotten, is_last=not left[call.key])}
    return unread


def _is_unread(call: Dispatch, index: int, needed: set[int], forgotten: set[int], *, is_last: bool) -> bool:
    return all(row[index] not in needed and (is_last or row[index] in forgotten) for row in call.results)
