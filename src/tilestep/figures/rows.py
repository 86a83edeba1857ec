"""The programs of a recording, and the steps that lines of the user's source became, as rows of a table or of JSON."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilestep.figures.paths import relative_paths
from tilestep.figures.reader import CompiledProgram, Report, SourceLine
from tilestep.figures.reader.programs.totals import LeafTotal, leaf_totals
from tilestep.sim.cycles.body import BodyCycles

Relative = Callable[[SourceLine], SourceLine]


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """All steps of one kind that one line of the user's program became, in all runs of one program, on the slowest of its IPUs."""

    program: str  # label
    line: str  # 'train.py:41'; '' if unknown
    function: str
    scope: str
    family: str
    steps: int  # in the tree, where a loop's body is once
    executions: int
    cycles: int
    compute: int
    exchange: int
    sync: int
    collective: int
    host_call: int


def program_row(program: CompiledProgram) -> dict[str, Any]:
    """One program: what it took on its slowest IPU in all runs, and its fullest tile. None stands where its tree was not kept."""
    return {
        "row": program.row,
        "name": program.name,
        "key": program.key,
        "label": program.label,
        "fingerprint": program.fingerprint,
        "origin": program.origin,
        "num_ipus": program.num_ipus,
        "runs": program.runs,
        "loads": program.loads,
        "cycles": program.total.cycles,
        "cycles_by_kind": program.total.by_kind,
        "flops_per_run": program.planned.flops if program.has_tree else None,
        "peak_tile_bytes": program.peak_tile_bytes,
    }


def step_rows(report: Report, programs: Sequence[CompiledProgram] | None = None, relative: Relative | None = None) -> tuple[StepRow, ...]:
    """The steps of programs by program, line, scope and family, those of most cycles first.

    Args: programs: None: all. relative: that `relative_lines` gives of the recording, if the caller has it already.
    """
    rows: dict[tuple[str, str, str, str], list[LeafTotal]] = {}
    relative = relative or relative_lines(report)
    for program in report.programs if programs is None else programs:
        for total in leaf_totals(program) if program.has_tree and program.runs else ():
            leaf = total.leaf
            line = str(relative(leaf.line)) if leaf.line else ""
            rows.setdefault((program.label, line, leaf.scope, leaf.family), []).append(total)
    made: list[StepRow] = []
    for (label, line, scope, family), totals in rows.items():
        spent = functools.reduce(BodyCycles.plus, (total.cycles for total in totals))
        made.append(
            StepRow(
                program=label,
                line=line,
                function=totals[0].leaf.line.function if totals[0].leaf.line else "",
                scope=scope,
                family=family,
                steps=len(totals),
                executions=sum(total.executions for total in totals),
                cycles=spent.total,
                **spent._asdict(),
            )
        )
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
