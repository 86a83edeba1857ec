"""What programs took in all runs of a part of a simulation, also those whose events are not kept: all that a profile is made of."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tilestep.recording.history import History
from tilestep.recording.program import ProgramTables, RecordedCompilation
from tilestep.recording.schema import EVENT_KINDS
from tilestep.recording.storage.container import Builder
from tilestep.sim.state.ledger import ProgramTotals, RunSizes
from tilestep.sim.state.residency import Group
from tilestep.sim.system import Mark, System

_EVENT_KINDS: Final = {kind: number for number, kind in enumerate(EVENT_KINDS)}


@dataclass(frozen=True, kw_only=True)
class SimulationSpan:
    """The part of a simulation that a recording is of.

    Attributes:
        system: the simulation.
        begin: its first mark.
        end: its last.
        history: the calls between them; None: they are not kept.
    """

    system: System
    begin: Mark
    end: Mark
    history: History | None


def ran_in(span: SimulationSpan, of_jax: Callable[[str], bool]) -> dict[int, RecordedCompilation]:
    """The programs that ran in a span, or whose results were read in it, by key, in order of their first dispatch.

    Args: of_jax: whether a program of this name is an operation outside of jit, or a function that JAX has jitted itself.
    """
    found: dict[int, RecordedCompilation] = {}
    for key, until in span.end.programs.items():
        since = until.since(span.begin.programs.get(key))
        if since.runs or since.host.read:
            # runs before the span count if only results were read in it
            group = next(iter((since if since.runs else until).runs_by_group), "")
            origin = "group" if group else "jax" if of_jax(until.program.name) else "user"
            found[key] = RecordedCompilation(program=until.program, origin=origin, group=group)
    return found


def add_sums(
    builder: Builder, span: SimulationSpan, compiled: Mapping[int, RecordedCompilation], *, lines: bool = True
) -> tuple[ProgramTables, Mapping[int, int]]:
    """Adds the programs of a span, and what each took in all its runs, to a recording.

    Args: lines: whether lines of the user's source are kept.
    Returns: the programs, whose texts `finish` adds; the row of each by its key.
    """
    begin, end = span.begin, span.end
    totals = {key: of.since(begin.programs.get(key)) for key, of in end.programs.items() if key in compiled}
    programs = ProgramTables(builder, lines=lines)
    rows: dict[int, int] = {}
    for key, of in compiled.items():
        ran = totals.get(key)
        rows[key] = programs.add(of, key=key, runs=0 if ran is None else ran.runs, loads=0 if ran is None else ran.loads)
    for key, of in totals.items():
        _add_totals(builder, rows[key], of, range(begin.number, end.number))
    _add_groups(builder, end, {of.group for of in compiled.values()})
    for batch, steps in end.accumulated.items():
        if done := steps - begin.accumulated.get(batch, 0):
            known = {name: -1 if value is None else value for name, value in asdict(batch).items()}
            builder.append("batches", **known, steps=done)
    builder.append("period", begin=begin.cycle, end=end.cycle, dropped=end.dropped_events - begin.dropped_events)
    return programs, rows


def _add_totals(builder: Builder, row: int, of: ProgramTotals, marks: range) -> None:
    """Adds the sums of one program. Args: marks: the numbers of those before its runs."""
    for ipu, kinds in of.cycles.items():
        for kind, cycles in kinds.items():
            if cycles:
                builder.append("sums", program=row, ipu=ipu, kind=_EVENT_KINDS[kind], cycles=cycles)
        for site, arm in of.body.counted:
            times = of.counted.get(ipu, {}).get((site, arm), 0)
            builder.append("counts", program=row, ipu=ipu, site=site, arm=arm, times=times)
    if of.runs or of.host.read:
        host_bytes = {f"host_bytes_{name}": size for name, size in asdict(of.host).items()} | _usual(of.sizes, marks)
        builder.append("host_bytes", program=row, dispatches=of.runs - sum(of.runs_by_group.values()), **host_bytes)
    for argument, (refed, repeated) in enumerate(zip(of.refed, of.repeated, strict=True)):
        if refed or repeated:
            builder.append("again", program=row, argument=argument, refed=refed, repeated=repeated)


def _usual(sizes: RunSizes, marks: range) -> dict[str, int]:
    """Bytes of most runs, the program's very first left out and the larger of equals; and of the first run after the marks."""
    first = next(((bytes_in, bytes_out) for mark, bytes_in, bytes_out in sizes.first_runs if mark in marks), (0, 0))
    found = {"first_run_host_bytes_in": first[0]}
    for name, runs, of_first in zip(("in", "out"), (sizes.runs_by_bytes_in, sizes.runs_by_bytes_out), first, strict=True):
        found[f"host_bytes_{name}"] = max(runs, key=lambda size: (runs[size], size)) if runs else of_first
    return found


def _add_groups(builder: Builder, end: Mark, names: set[str]) -> None:
    fullest: dict[str, tuple[int, Group]] = {}
    for (name, ipu), group in end.groups.items():
        if name in names and (name not in fullest or group.use.peak_bytes > fullest[name][1].use.peak_bytes):
            fullest[name] = ipu, group
    for name, (ipu, group) in fullest.items():
        row = builder.append("groups", name=name, ipu=ipu, peak_tile_bytes=group.use.peak_bytes)
        for member in group.members.values():
            builder.append("members", group=row, name=member)
