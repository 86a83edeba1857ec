"""What is in a recording, as plain records for a table or for JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilestep.figures.paths import relative_paths
from tilestep.figures.reader import CompiledProgram, Report, SourceLine
from tilestep.figures.reader.runs import Run
from tilestep.figures.reader.totals import LeafTotal, leaf_totals, program_total

Relative = Callable[[SourceLine], SourceLine]


@dataclass(frozen=True, kw_only=True)
class ProgramRow:
    """One program: what it took on its slowest IPU in all runs, and the fullest tile."""

    name: str
    key: int
    label: str  # its name, with its key where another program has the same name
    fingerprint: str
    origin: str
    num_ipus: int
    runs: int
    loads: int
    cycles: int
    cycles_by_kind: dict[str, int]
    flops_per_run: int | None  # None: its tree was not kept
    peak_tile_bytes: int | None
    memory: dict[str, int] | None  # bytes of the fullest tile by category; None: they were not recorded
    detailed: bool  # whether the lives of its values were recorded


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """All steps of one kind that one line of the user's program became, in all runs of one program, on the first of its IPUs."""

    program: str  # label
    line: str  # 'train.py:41'; '' if unknown
    function: str
    scope: str
    family: str
    steps: int  # of the program's tree
    executions: int
    cycles: int
    compute: int
    exchange: int
    sync: int
    collective: int
    host_call: int


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """The runs of one program."""

    program: str  # label
    runs: int
    in_detail: int
    first_cycle: int  # at which the host had dispatched the first
    last_cycle: int


@dataclass(frozen=True, kw_only=True)
class ThreadRow:
    """What one thread of the host traced, in wall time."""

    process: int
    thread: str
    events: int
    busy_wall_s: float  # of the outermost events


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What is in a recording."""

    tilestep: str
    kind: str
    parts: tuple[str, ...]
    machine: str  # '': it has none
    num_ipus: int
    clock_hz: float
    tile_sram_bytes: int
    emulated_cycles: int
    busiest_ipu: int
    cycles_by_kind: dict[str, int]
    events: int
    journal_calls: int
    programs: tuple[ProgramRow, ...]
    steps: tuple[StepRow, ...]
    runs: tuple[RunRow, ...]
    threads: tuple[ThreadRow, ...]

    @property
    def emulated_s(self) -> float:
        """The emulated time; 0 if there is none."""
        return self.emulated_cycles / self.clock_hz if self.clock_hz else 0.0


def overview(report: Report) -> Overview:
    """What is in a recording. Raises: RecordingError if it is damaged."""
    parts = report.parts
    programs = report.compilation.programs if "compilation" in parts else ()
    machine = report.target.machine if "compilation" in parts else None
    total = report.execution.total_cycles if "execution" in parts else None
    return Overview(
        tilestep=report.version,
        kind=str(report.notes.get("kind", "")),
        parts=parts,
        machine=machine.name if machine else "",
        num_ipus=machine.num_ipus if machine else 0,
        clock_hz=machine.ipu.clock_hz if machine else 0.0,
        tile_sram_bytes=machine.ipu.tile.sram_bytes if machine else 0,
        emulated_cycles=total.total if total else 0,
        busiest_ipu=total.busiest_ipu if total else 0,
        cycles_by_kind=dict(total.by_kind) if total else {},
        events=report.tables.rows("events"),
        journal_calls=report.tables.rows("calls"),
        programs=tuple(_program(report, program) for program in programs),
        steps=step_rows(report, programs),
        runs=tuple(_runs(report, programs)) if "execution" in parts else (),
        threads=tuple(_threads(report)) if "system" in parts else (),
    )


def step_rows(report: Report, programs: Sequence[CompiledProgram], relative: Relative | None = None) -> tuple[StepRow, ...]:
    """The steps of some programs by program, line, scope and family, those of most cycles first.

    Args: relative: that `relative_lines` gives of the recording, if the caller has it already.
    """
    rows: dict[tuple[int, str, str, str], list[LeafTotal]] = {}
    relative = relative or relative_lines(report)
    for program in programs:
        if program.has_tree and program.runs:
            for total in leaf_totals(report.tables, program):
                leaf = total.leaf
                line = str(relative(leaf.line)) if leaf.line else ""
                rows.setdefault((program.row, line, leaf.scope, leaf.family), []).append(total)
    made = [
        StepRow(
            program=report.compilation.programs[row].label,
            line=line,
            function=totals[0].leaf.line.function if totals[0].leaf.line else "",
            scope=scope,
            family=family,
            steps=len(totals),
            executions=sum(total.executions for total in totals),
            cycles=sum(total.cycles.total for total in totals),
            compute=sum(total.cycles.compute for total in totals),
            exchange=sum(total.cycles.exchange for total in totals),
            sync=sum(total.cycles.sync for total in totals),
            collective=sum(total.cycles.collective for total in totals),
            host_call=sum(total.cycles.host_call for total in totals),
        )
        for (row, line, scope, family), totals in rows.items()
    ]
    return tuple(sorted(made, key=lambda step: -step.cycles))


def relative_lines(report: Report) -> Relative:
    """A function that gives a line without its callers, its path relative to what all lines of the recording have in common."""
    relative = relative_files(report)
    return lambda line: replace(line, file=relative(line.file), caller=None)


def relative_files(report: Report) -> Callable[[str], str]:
    """A function that gives a path relative to what all lines of the recording have in common."""
    return relative_paths(files_of(report))


def files_of(report: Report) -> list[str]:
    """Paths of the files that lines of the recording are in."""
    files: list[int] = sorted(set(report.tables.column("frames", "file").tolist()))
    return [report.tables.strings[file] for file in files if file >= 0]


def _program(report: Report, program: CompiledProgram) -> ProgramRow:
    planned = program.planned if program.has_tree else None
    total = program_total(report.tables, program)
    return ProgramRow(
        name=program.name,
        key=program.key,
        label=program.label,
        fingerprint=program.fingerprint,
        origin=program.origin,
        num_ipus=program.num_ipus,
        runs=program.runs,
        loads=program.loads,
        cycles=total.cycles,
        cycles_by_kind=total.by_kind,
        flops_per_run=planned.flops if planned else None,
        peak_tile_bytes=planned.memory.peak_bytes if planned else None,
        memory=program.memory.by_category() if program.detailed else dict(planned.memory.by_kind) if planned else None,
        detailed=program.detailed,
    )


def _runs(report: Report, programs: Sequence[CompiledProgram]) -> list[RunRow]:
    execution = report.execution
    detailed = {int(run) for run in set(execution.events.column("run").tolist())}
    of_programs: dict[int, list[Run]] = {}
    for run in execution.runs:
        of_programs.setdefault(run.program.row, []).append(run)
    rows: list[RunRow] = []
    for program in programs:
        runs = of_programs.get(program.row)
        if runs:
            rows.append(
                RunRow(
                    program=program.label,
                    runs=len(runs),
                    in_detail=sum(run.index in detailed for run in runs),
                    first_cycle=runs[0].host_cycle,
                    last_cycle=runs[-1].host_cycle,
                )
            )
    return rows


def _threads(report: Report) -> list[ThreadRow]:
    return [
        ThreadRow(
            process=process.pid,
            thread=thread.name,
            events=thread.num_events,
            busy_wall_s=thread.busy_ns / 1e9,
        )
        for process in report.system.processes
        for thread in process.threads
    ]
