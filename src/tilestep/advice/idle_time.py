"""Advice for IPUs that wait: for a host that dispatches short runs, or reads before it goes on, or for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding
from tilestep.advice.host_lines import most
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.source_lines import needed_at
from tilestep.figures.quantities import count_text, share_text
from tilestep.figures.records import Figures, ProgramProfile
from tilestep.recording.edits.reads import read_at_the_end
from tilestep.recording.edits.relocate import LOOP_STEPS, merged
from tilestep.recording.edits.script import in_turn


def _is_mostly_idle(figures: Figures) -> bool:
    return figures.idle_cycles * 2 > figures.emulated_cycles


def _loop(profile: ProgramProfile, name: str, evidence: Evidence) -> Way:
    """To do several calls in one."""
    return Way(
        edit=f"loop over {name} on the IPU (lax.scan)",
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
        share = share_text(figures.idle_cycles, figures.emulated_cycles)
        text = (
            f"IPU {figures.busiest_ipu}, the busiest, is idle {share} of emulated time, and the host reads results before it "
            "dispatches more: read them later, or rarely."
        )
        if figures.idle_cycles < LEAST_SHARE * figures.emulated_cycles:
            return
    finding = Finding(kind="idle", text=text)
    often = max((p for p in figures.programs if p.origin == "user"), key=lambda program: program.runs, default=None)
    if evidence is None or often is None:
        yield Proposal(finding=finding, only_with_gain=not mostly)
        return
    name = figures.label(often.key)
    pauses = evidence.host_lines.pauses
    needed = needed_at(pauses, *(p.name.removeprefix("jit_") for p in figures.programs))
    read_at = most(Counter({line: times for line, times in pauses.items() if (line.file, line.number) not in needed}))
    later = partial(read_at_the_end, keeping=needed)
    line = evidence.line_of_call(often.key)
    if read_at is None and line is not None:
        finding = replace(finding, text=f"{text} The line is where {name} is called.")
    ways = [Way(edit="read results after the last call", change=later, how="replayed", line=read_at)]
    if mostly and often.runs > 1:
        loop = _loop(often, name, evidence)
        ways += [loop]
        if read_at is not None:
            ways += [replace(loop, edit=f"{loop.edit}, and read results after it", change=in_turn(later, loop.change))]
    yield Proposal(finding=replace(finding, line=line), ways=tuple(ways), only_with_gain=not mostly)
