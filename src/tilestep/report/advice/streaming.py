"""Advice on arguments that are new at each call, such as batches: they may come while the tiles compute, or be smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tilestep.plan.steps import Argument, Program
from tilestep.record.edits.programs import on_fewer_tiles
from tilestep.record.edits.script import Change, with_changed
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding
from tilestep.report.advice.lines import line_of_call
from tilestep.report.advice.proposal import Proposal, Way
from tilestep.report.figures import Figures, ProgramProfile
from tilestep.report.quantities import bytes_text, names_text, share_text
from tilestep.units import cycles_from_bytes

IO_TILES: Final = 32  # that Graphcore's examples give to transfers
STREAMING_DOMINATES: Final = 0.1  # of emulated time


def streaming(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The program whose fresh arguments take the host link for longest."""
    if evidence is None:
        return
    users = [p for p in figures.programs if p.origin == "user" and p.key in evidence.programs]
    profile = max(users, key=lambda p: p.runs * _fresh_bytes(p, evidence.programs[p.key]), default=None)
    if profile is None:
        return
    program = evidence.programs[profile.key]
    fresh = _fresh(profile, program)
    size = sum(argument.size_bytes for argument in fresh)
    machine = evidence.machine
    cycles = profile.runs * cycles_from_bytes(size, machine.host.link_bytes_per_second, machine.ipu.clock_hz)
    if cycles < STREAMING_DOMINATES * figures.emulated_cycles:
        return
    largest = sorted(fresh, key=lambda argument: -argument.size_bytes)
    names = names_text([f"{argument.name} {argument.shape}" for argument in largest], most=3)
    label = figures.label(profile.key)
    text = (
        f"{label} waits for {names}, which are new at each call ({bytes_text(size)}, "
        f"{share_text(cycles, figures.emulated_cycles)} of emulated time): let them come while it computes (ipu_num_io_tiles), or send "
        "smaller dtypes and convert them on the IPU."
    )
    ways: list[Way] = []
    wide = [argument for argument in fresh if argument.shape.startswith("f32")]
    if not program.num_io_tiles:
        edit = f"compile {label} with compiler_options={{'ipu_num_io_tiles': {IO_TILES}}}"
        change = with_changed([profile.key], lambda program: on_fewer_tiles(program, IO_TILES, machine.ipu.num_tiles))
        ways.append(Way(edit=edit, change=change, how="about", basis="the other tiles computing as much longer as they are fewer"))
    if wide:
        names = names_text([argument.name for argument in sorted(wide, key=lambda argument: -argument.size_bytes)], most=3)
        ways.append(
            Way(
                edit=f"send {names} as float16 or 8-bit numbers",
                change=_halved(profile.key, [argument.index for argument in wide]),
                how="about",
                basis="with half of the bytes",
            )
        )
    yield Proposal(finding=Finding(kind="streaming", text=text, line=line_of_call(program)), ways=tuple(ways), only_with_gain=True)


def _fresh(profile: ProgramProfile, program: Program) -> list[Argument]:
    """Arguments that stream in and are neither own results nor the same at each call."""
    again = {argument.index for argument in profile.streamed_again}
    return [a for a in program.arguments if a.result is None and not a.on_host and a.index not in again]


def _fresh_bytes(profile: ProgramProfile, program: Program) -> int:
    return sum(argument.size_bytes for argument in _fresh(profile, program))


def _halved(key: int, arguments: Sequence[int]) -> Change:
    def smaller(program: Program) -> Program:
        taken = tuple(replace(a, size_bytes=a.size_bytes // 2) if a.index in arguments else a for a in program.arguments)
        return replace(program, arguments=taken)

    return with_changed([key], smaller)
