"""Advice on results: those that leave the IPU though nobody uses them, those that the host reads, and IPUs that wait for such reads."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding, Line
from tilestep.advice.phrases import ENDING_LOOP, LOOP, one_or, times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import jit_of
from tilestep.advice.user_code.lines import most
from tilestep.advice.user_code.source_lines import needed_at, tested_at
from tilestep.figures.quantities import bytes_text, count_text, names_text, share_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.recording.edits.reads import asked_of, read_at_the_end, read_of_last_run, without_results
from tilestep.recording.edits.relocate import LOOP_STEPS, merged
from tilestep.recording.edits.script import Script, in_turn, used
from tilestep.sim.calls import Dispatch, Forget, Read

_TEST = "test {} on the IPU (lax.while_loop), or only at every tenth call"
_LEAST_RETURNS = 3  # a program that ran less often may be used after the profile


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
        if calls[call.key] < _LEAST_RETURNS:
            continue
        found = unread.setdefault(call.key, set(range(len(call.results[0]))) if call.results else set())
        found -= {index for index in found if not _is_unread(call, index, needed, forgotten, is_last=not left[call.key])}
    return unread


def _is_unread(call: Dispatch, index: int, needed: set[int], forgotten: set[int], *, is_last: bool) -> bool:
    return all(row[index] not in needed and (is_last or row[index] in forgotten) for row in call.results)


def reads(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's program of whose results in the tiles the host reads most.

    A line that gives them to a function, such as an evaluation on the CPU or a checkpoint, needs them there: that is told aside.
    """
    if evidence is None:
        return
    profile = max((p for p in figures.programs if p.origin == "user" and p.cycles.read), key=lambda p: p.cycles.read, default=None)
    if profile is None or profile.key not in evidence.programs:
        return
    script, label = Script(calls=evidence.calls, programs=evidence.programs), figures.label(profile.key)
    lines = evidence.host_lines.reads.get(profile.key, Counter[Line]())
    needed = needed_at(lines, profile.name.removeprefix("jit_"))
    asked = [read for read in asked_of(script, profile.key) if read.is_read]
    for for_functions in (False, True):
        found = [read for read in asked if (read.line in needed) == for_functions]
        runs = len({read.run for read in found})
        if runs < 2:
            continue
        sizes = Counter(read.size_bytes for read in found)
        kinds = [f"{bytes_text(size)} {times_text(sizes[size])}" for size in sorted(sizes, key=lambda size: -size * sizes[size])]
        text = f"The host reads results of {label} out of the tiles after {runs:,} runs ({names_text(kinds, most=3)})"
        line = most(Counter({line: times for line, times in lines.items() if ((line.file, line.number) in needed) == for_functions}))
        if for_functions:
            names = names_text(sorted(frozenset[str]().union(*needed.values())), most=3)
            edit, text = f"if {names} got results of {label} once, after its last run", f"{text}, for {names}."
        elif line is not None and tested_at(line):
            edit, text = _TEST.format(f"the results of {label}"), f"{text}, to decide what comes next."
        else:
            edit = f"read results of {label} once, after its last run"
            text += ": read them rarely, or work out on the IPU what is needed of them, and read that."
        if line is None and (line := evidence.line_of_call(profile.key)) is not None:
            text += f" The line is where {label} is called."
        change = read_of_last_run(profile.key, keeping={read.line for read in asked if read not in found and read.line})
        finding = Finding(kind="needed" if for_functions else "reads", text=text, line=line)
        yield Proposal(finding=finding, ways=(Way(edit=edit, change=change, how="replayed"),), only_with_gain=True)


def _is_mostly_idle(figures: Figures) -> bool:
    return figures.idle_cycles * 2 > figures.emulated_cycles


def _loop(profile: ProgramProfile, name: str, loop: str) -> Way:
    """To do several calls in one. Args: loop: JAX's that does them."""
    return Way(
        edit=f"loop over {name} on the IPU ({loop})",
        change=merged([profile.key], at_most=LOOP_STEPS),
        how="about",
        basis=f"played as one program of up to {LOOP_STEPS} steps; more if their arguments come in one transfer",
    )


def idle(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The busiest IPU waits for more than half of the time, or for a host that reads results before it dispatches more."""
    if not figures.programs:
        return
    waits = f"IPU {figures.busiest_ipu}, the busiest, waits {share_text(figures.idle_cycles, figures.emulated_cycles)}"
    mostly = _is_mostly_idle(figures)
    pauses = Counter[Line]() if evidence is None else evidence.host_lines.pauses
    needed = needed_at(pauses, *(p.name.removeprefix("jit_") for p in figures.programs))
    read_at = most(Counter({line: times for line, times in pauses.items() if (line.file, line.number) not in needed}))
    tested = read_at is not None and tested_at(read_at)
    if mostly and figures.dispatch_cycles * 2 > figures.emulated_cycles:  # no work of the IPUs hides that
        text = (
            f"The host spends {share_text(figures.dispatch_cycles, figures.emulated_cycles)} of emulated time dispatching "
            f"{count_text(figures.dispatches, 'run')}, and {waits}: do more in each run (lax.scan, lax.fori_loop), and read results "
            "rarely, so that the host is ahead of the IPU."
        )
    elif mostly:
        text = (
            f"{waits} of emulated time for the host or other IPUs: dispatch more before reading, do more per call (lax.scan, "
            "lax.fori_loop), or give the IPUs work that does not wait for each other's (microbatches)."
        )
    else:
        # Not all of it is for the host: another IPU may still work when this one has nothing more to do.
        text = "The host reads results before it dispatches more, and the IPUs wait meanwhile"
        text += ", to decide what comes next." if tested else ": read them later, or rarely."
        if not figures.idle_cycles or (evidence is None and figures.idle_cycles < LEAST_SHARE * figures.emulated_cycles):
            return
    finding = Finding(kind="idle", text=text)
    often = max((p for p in figures.programs if p.origin == "user"), key=lambda program: program.runs, default=None)
    if evidence is None or often is None:
        yield Proposal(finding=finding, only_with_gain=not mostly)
        return
    name = figures.label(often.key)
    later = partial(read_at_the_end, keeping=needed)
    line = evidence.line_of_call(often.key)
    if read_at is None and line is not None:
        finding = replace(finding, text=f"{text} The line is where {name} is called.")
    ways = [Way(edit="read results after the last call", change=later, how="replayed", line=read_at)]
    if tested:
        ways = [replace(ways[0], edit=_TEST.format("what the host reads"), how="about", basis="as if none were read between the calls")]
    if mostly and often.runs > 1:
        loop = _loop(often, name, ENDING_LOOP if tested else LOOP)
        ways += [loop]
        if read_at is not None:
            ways += [replace(loop, edit=f"{loop.edit}, and read results after it", change=in_turn(later, loop.change))]
    yield Proposal(finding=replace(finding, line=line), ways=tuple(ways), only_with_gain=not mostly)
