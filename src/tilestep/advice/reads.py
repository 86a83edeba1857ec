"""Advice on values in the tiles that the host reads: each read stops the IPU."""

from __future__ import annotations

from collections.abc import Iterator

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.host_lines import most
from tilestep.advice.phrases import times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.figures.quantities import bytes_text, share_text
from tilestep.figures.records import Figures
from tilestep.recording.edits.reads import read_of_last_run, runs_read
from tilestep.recording.edits.script import Script


def reads(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's program of whose results in the tiles the host reads most."""
    if evidence is None:
        return
    profile = max((p for p in figures.programs if p.origin == "user" and p.cycles.read), key=lambda p: p.cycles.read, default=None)
    if profile is None or profile.key not in evidence.programs:
        return
    times = runs_read(Script(calls=evidence.calls, programs=evidence.programs), profile.key)
    if times < 2:
        return
    label = figures.label(profile.key)
    size = bytes_text(profile.host_bytes_read // times)
    text = (
        f"The host reads results of {label} out of the tiles {times_text(times)} ({size} each time, "
        f"{share_text(profile.cycles.read, figures.emulated_cycles)} of emulated time): read them rarely, or work out on the IPU what is "
        "needed of them, and read that."
    )
    way = Way(edit=f"read results of {label} once, after its last run", change=read_of_last_run(profile.key), how="replayed")
    line = most(evidence.host_lines.reads.get(profile.key))
    if line is None and (line := evidence.line_of_call(profile.key)) is not None:
        text += f" The line is where {label} is called."
    yield Proposal(finding=Finding(kind="reads", text=text, line=line), ways=(way,), only_with_gain=True)
