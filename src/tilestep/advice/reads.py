"""Advice on values in the tiles that the host reads: each read stops the IPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.host_lines import most
from tilestep.advice.phrases import times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.source_lines import needed_at
from tilestep.figures.quantities import bytes_text, names_text
from tilestep.figures.records import Figures
from tilestep.recording.edits.reads import asked_of, read_of_last_run
from tilestep.recording.edits.script import Script


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
        else:
            edit = f"read results of {label} once, after its last run"
            text += ": read them rarely, or work out on the IPU what is needed of them, and read that."
        if line is None and (line := evidence.line_of_call(profile.key)) is not None:
            text += f" The line is where {label} is called."
        change = read_of_last_run(profile.key, keeping={read.line for read in asked if read not in found and read.line})
        finding = Finding(kind="needed" if for_functions else "reads", text=text, line=line)
        yield Proposal(finding=finding, ways=(Way(edit=edit, change=change, how="replayed"),), only_with_gain=True)
