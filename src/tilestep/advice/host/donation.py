"""Advice on arguments that stream in again: what was in the tiles already, and what the host puts with the same bytes each time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding
from tilestep.advice.phrases import one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import jit_of, root_of
from tilestep.figures.quantities import bytes_text, names_text
from tilestep.figures.records import Figures, ProgramProfile, StreamedArgument
from tilestep.recording.edits.donation import donatable, donated, kept, pairs_of, put_once
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
    """Positions of a program's arguments that have no batch.

    They change at less than half of the calls, or are what a program makes of what it made before.
    """
    found = {argument.index for argument in profile.streamed_again} | alike(evidence, profile.key)
    calls = [call.arguments for call in evidence.dispatches if call.key == profile.key]
    for index in range(len(evidence.programs[profile.key].arguments)) if len(calls) > 1 else ():
        values = [rows[0][index] for rows in calls if rows]
        changes = sum(before != after for before, after in pairwise(values))
        if 2 * changes < len(values) - 1 or 2 * sum(value in evidence.states for value in values) >= len(values):
            found.add(index)
    return frozenset(found)


def may_be_alike(evidence: Evidence, key: int, index: int) -> bool:
    """Whether nobody knows if an argument that comes with each call has the same bytes each time."""
    contents = evidence.host_lines.contents
    return any(not contents.get(row[index], 0) for call in evidence.dispatches if call.key == key for row in call.arguments)


_EQUINOX: Final = "dynamic_nodonate"  # in which equinox.filter_jit passes all arrays (patrick-kidger/equinox, equinox/_jit.py)
_EQUINOX_DONATES: Final = 'equinox.filter_jit(donate="all")'
_STREAMING_NAMED: Final = 3  # programs; a script of short functions has hundreds that stream some bytes


def donation(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Advice to donate, for programs whose caller can donate arguments, if donation would shorten the emulated time.

    The host's time to dispatch all runs stays, so donation saves nothing if that is all of the time.
    """
    at_stake = figures.emulated_cycles - figures.dispatch_cycles
    worth_it = LEAST_SHARE * figures.emulated_cycles if evidence is None else 1  # a replay knows what the link's latencies take
    users = [p for p in figures.programs if p.origin == "user" and at_stake >= worth_it]
    if evidence is not None:
        users = [replace(p, streamed_again=(*p.streamed_again, *_evicted(evidence, p))) for p in users]
    streaming = [p for p in users if _streamed_cycles(p) >= worth_it]
    streaming.sort(key=lambda program: -_streamed_bytes(program))
    for program in streaming[:_STREAMING_NAMED]:
        own = [argument for argument in program.streamed_again if argument.reason == "own result"]
        same = [argument for argument in program.streamed_again if argument.reason == "same value"]
        if own and evidence is not None:
            own = _possible(evidence, program, own)
        own, same = _as_written(evidence, program, own), _as_written(evidence, program, same)
        for part, others in _parted(evidence, program, own):
            is_equinox = not others and all(root_of(argument.name) == _EQUINOX for argument in part)
            text = (
                f"{_arguments(figures, program, part)} though {one_or(part, 'it is its', 'they are its')} own earlier "
                f"{one_or(part, 'result', 'results')}: {_apart(part, others)}donate {one_or(part, 'it', 'them')} "
                f"({_EQUINOX_DONATES if is_equinox else 'donate_argnums'}) and "
                f"{one_or(part, 'it stays', 'they stay')} on the IPU."
            )
            what = f"the arrays of {figures.label(program.key)} ({_EQUINOX_DONATES})" if is_equinox else _donated_text(part, others)
            edit, change = f"donate {what}", donated(program.key, [argument.index for argument in part])
            yield _proposal(text, program, Way(edit=edit, change=change, how="within 2 %"), evidence)
        for part, others in _parted(evidence, program, same):
            text = (
                f"{_arguments(figures, program, part)} with the same {one_or(part, 'value', 'values')}: {_apart(part, others)}return "
                f"{one_or(part, 'it', 'them')} unchanged and donate {one_or(part, 'it', 'them')}, and "
                f"{one_or(part, 'it stays', 'they stay')} on the IPU."
            )
            it = f"{one_or(part, 'it', 'them')}{_own_arguments(part) if others else ''}"
            edit = f"return {_names(part) if others else _roots(part)} unchanged and donate {it}"
            change = kept(program.key, [argument.index for argument in part])
            yield _proposal(text, program, Way(edit=edit, change=change, how="within 2 %"), evidence)


def _evicted(evidence: Evidence, profile: ProgramProfile) -> Iterator[StreamedArgument]:
    """Arguments that would stay on the IPU if nothing evicted the program between its runs, at half of them or more."""
    if profile.loads < 2 or profile.key not in evidence.programs:
        return
    calls = [call.arguments[0] for call in evidence.dispatches if call.key == profile.key and call.arguments]
    own = Counter(each.index for each in evidence.handed_over.get(profile.key, ()) if each.maker == profile.key)
    again = {argument.index for argument in profile.streamed_again}
    for argument in evidence.programs[profile.key].arguments:
        same = sum(before[argument.index] == after[argument.index] for before, after in pairwise(calls))
        count = max(own[argument.index], same)
        if argument.index in again or argument.result is not None or argument.on_host or 2 * count < len(calls) - 1:
            continue
        yield StreamedArgument(
            index=argument.index,
            name=argument.name,
            shape=argument.shape,
            size_bytes=argument.size_bytes,
            calls=count * profile.num_ipus,
            cycles=count * evidence.machine.host_cycles(to_ipus=argument.size_bytes),
            reason="own result" if own[argument.index] >= same else "same value",
        )


def _as_written(evidence: Evidence | None, program: ProgramProfile, arguments: list[StreamedArgument]) -> list[StreamedArgument]:
    """With the names of the parameters, where JAX gives them its own."""
    if evidence is None or not arguments:
        return arguments
    planned = evidence.programs[program.key]
    written = jit_of(planned).parameters([each.name for each in arguments], len(planned.arguments))
    return [replace(argument, name=name) for argument, name in zip(arguments, written, strict=True)]


def _parted(
    evidence: Evidence | None, program: ProgramProfile, arguments: list[StreamedArgument]
) -> Iterator[tuple[list[StreamedArgument], tuple[str, ...]]]:
    """Those whose whole arguments can be donated, with (); then those that are parts of others, with the names of these."""
    indices = [argument.index for argument in arguments]
    others = () if evidence is None else not_whole(evidence, program.key, indices)
    whole = [argument for argument in arguments if root_of(argument.name) not in others]
    if whole:
        yield whole, ()
    parts = [argument for argument in arguments if root_of(argument.name) in others]
    if parts:
        yield parts, others


def not_whole(evidence: Evidence, key: int, indices: Sequence[int]) -> tuple[str, ...]:
    """The function's own arguments that cannot be donated, because other parts of them than these are used again or come twice."""
    arguments = evidence.programs[key].arguments
    roots = dict.fromkeys(root_of(arguments[index].name) for index in indices)
    rest = [a.index for a in arguments if a.index not in indices and root_of(a.name) in roots]
    if not rest:
        return ()
    free = donatable(evidence.calls, key, rest, more_follow=not evidence.is_whole)
    kept_roots = {root_of(arguments[index].name) for index in rest if index not in free}
    return tuple(root for root in roots if root in kept_roots)


def _apart(part: Sequence[StreamedArgument], others: Sequence[str]) -> str:
    """Why they have to become arguments of their own."""
    if not others:
        return ""
    whole = names_text([root for root in others if any(root_of(argument.name) == root for argument in part)], most=3)
    return (
        f"{whole} cannot be donated as a whole, because other parts are used again or come twice, so pass {_names(part)}"
        f"{_own_arguments(part)}, "
    )


def _own_arguments(part: Sequence[StreamedArgument]) -> str:
    return one_or(part, " as an argument of its own", " as arguments of their own")


def _donated_text(part: Sequence[StreamedArgument], others: Sequence[str]) -> str:
    return f"{_names(part)}{_own_arguments(part)}" if others else _roots(part)


def _proposal(text: str, program: ProgramProfile, way: Way, evidence: Evidence | None) -> Proposal:
    if evidence is None:
        return Proposal(finding=Finding(kind="donation", text=text, edit=way.edit))
    jit, call = jit_of(evidence.programs[program.key]), evidence.line_of_call(program.key)
    if jit.line is not None and call not in (None, jit.line):
        text += f" It is called at {call}."
    finding = Finding(kind="donation", text=text, edit=way.edit, line=jit.line or call)
    return Proposal(finding=finding, ways=(way,), only_with_gain=True, behind_others=True)


def _possible(evidence: Evidence, program: ProgramProfile, arguments: list[StreamedArgument]) -> list[StreamedArgument]:
    """Those arguments that no call uses again after the program has taken them, and whose memory a result can take."""
    free = donatable(evidence.calls, program.key, [argument.index for argument in arguments], more_follow=not evidence.is_whole)
    paired = pairs_of(evidence.programs[program.key], free)
    return [argument for argument in arguments if argument.index in paired]


def _names(arguments: Sequence[StreamedArgument]) -> str:
    return names_text([argument.name for argument in sorted(arguments, key=lambda argument: -argument.size_bytes)], most=3)


def _roots(arguments: Sequence[StreamedArgument]) -> str:
    """The function's own arguments, of which these are parts: 'params' of 'params[0][1]'."""
    largest = sorted(arguments, key=lambda argument: -argument.size_bytes)
    return names_text(list(dict.fromkeys(root_of(argument.name) for argument in largest)), most=3)


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
