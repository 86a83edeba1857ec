"""`tilestep report show`: what is in a recording."""

import argparse
from dataclasses import asdict
from typing import Any, Final

from tilestep.cli.report.opening import add_path, exit_status, opened, print_json, print_line, print_rows
from tilestep.figures.quantities import bytes_text, count_text, share_text, time_text
from tilestep.figures.reader import Report
from tilestep.figures.reader.runs.run import Run
from tilestep.figures.rows import program_row, step_rows
from tilestep.messages import plain
from tilestep.units import seconds_from_cycles
from tilestep.views.stored import stored_profile

_COMMAND: Final = "tilestep report show"
_MOST: Final = 15  # rows of a table
_DISPATCHED: Final = ("first_cycle", "last_cycle")
_WIDTH: Final = 100  # columns of a summary where stderr is no terminal, as of summary.txt


def add_parser(subparsers: Any) -> None:
    """Adds `show` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "show",
        help="show what is in a recording",
        description="Shows a recording: the summary of its run, as the run has said it, the fullest tile by category, and its runs.",
    )
    add_path(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with all rows, instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 2 after a message to stderr if there is no such recording, or it is damaged."""
    return exit_status(_COMMAND, lambda: _show(opened(_COMMAND, args.path), as_json=args.json))


def _show(report: Report, *, as_json: bool) -> int:
    profile = stored_profile(report)
    if as_json:
        print_json(_document(report))
        return 0
    if profile is not None:
        print_line(profile.summary(width=_WIDTH))
        print_line("")
    print_line(_head(report))
    print_line("")
    _print_memory(report)
    _print_runs(report)
    _print_threads(report)
    return 0


def _document(report: Report) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "tilestep": report.version,
        "kind": str(report.notes.get("kind", "")),
        "parts": report.parts,
        "machine": report.target.machine.name if report.programs else "",
        "events": report.tables.rows("events"),
        "journal_calls": report.tables.rows("calls"),
        "programs": [program_row(program) for program in report.programs],
        "steps": [asdict(row) for row in step_rows(report)],
        "runs": _runs(report),
        "threads": _threads(report),
        "profile": report.profile or None,
    }


def _head(report: Report) -> str:
    head = f"recording of tilestep {plain(report.version)} with {', '.join(report.parts) or 'nothing'}"
    if report.programs:
        machine = report.target.machine
        head += f", on {plain(machine.name)} ({count_text(machine.num_ipus, 'IPU')})"
    if "execution" in report.parts:
        head += f": {_time(report, report.execution.total_cycles.total)} emulated, {count_text(len(report.execution.runs), 'program run')}"
        head += f", {count_text(report.tables.rows('events'), 'event')}"
    calls = report.tables.rows("calls")
    return f"{head}, journal of {count_text(calls, 'call')}" if calls else head


def _time(report: Report, cycles: int) -> str:
    return time_text(seconds_from_cycles(cycles, report.target.clock_hz))


def _print_memory(report: Report) -> None:
    """Of the program whose fullest tile holds most."""
    fullest = max((each for each in report.programs if each.has_tree), key=lambda each: each.peak_tile_bytes or 0, default=None)
    if fullest is not None:
        parts = fullest.memory.by_category() if fullest.detailed else dict(fullest.planned.memory.by_kind)
        sram_bytes = report.target.bytes_per_tile
        by_size = sorted(parts.items(), key=lambda part: -part[1])
        rows = [(plain(kind), f"{size:,}", share_text(size, sram_bytes)) for kind, size in (*by_size, ("together", sum(parts.values())))]
        title = f"Memory of the fullest tile of '{plain(fullest.label)}', which has {bytes_text(sram_bytes)}"
        print_rows(title, ("what",), ("bytes", "of the tile"), rows if parts else [])
    detailed = sum(program.detailed for program in report.programs)
    if 0 < detailed < len(report.programs):
        of_all = count_text(len(report.programs), "program")
        print_line(f"The lives of values are those of {detailed:,} of {of_all}; of others only the peak.\n")


def _runs(report: Report) -> list[dict[str, Any]]:
    """The runs of each program: how many, of how many the events were kept, and when the host dispatched the first and the last."""
    of_programs: dict[str, list[Run]] = {}
    runs = report.execution.runs if "execution" in report.parts else ()
    in_detail = set(report.tables.column("events", "run").tolist())
    for run in runs:
        of_programs.setdefault(run.program.label, []).append(run)
    return [
        {
            "program": label,
            "runs": len(of_program),
            "in_detail": sum(run.index in in_detail for run in of_program),
            "first_cycle": of_program[0].host_cycle,
            "last_cycle": of_program[-1].host_cycle,
        }
        for label, of_program in of_programs.items()
    ]


def _print_runs(report: Report) -> None:
    rows = [
        (plain(row["program"]), f"{row['runs']:,}", f"{row['in_detail']:,}", *(_time(report, row[name]) for name in _DISPATCHED))
        for row in _runs(report)[:_MOST]
    ]
    print_rows("Runs", ("program",), ("runs", "in detail", "first dispatched", "last dispatched"), rows)


def _threads(report: Report) -> list[dict[str, Any]]:
    """What each thread of the host traced, in wall time: that of the outermost events."""
    processes = report.system.processes if "system" in report.parts else ()
    return [
        {"process": process.pid, "thread": thread.name, "events": thread.num_events, "busy_wall_s": thread.busy_ns / 1e9}
        for process in processes
        for thread in process.threads
    ]


def _print_threads(report: Report) -> None:
    rows = [
        (f"{row['process']}", plain(row["thread"]), f"{row['events']:,}", time_text(row["busy_wall_s"]))
        for row in sorted(_threads(report), key=lambda row: -row["busy_wall_s"])[:_MOST]
    ]
    print_rows("Threads of the host, in wall time", ("process", "thread"), ("events", "busy"), rows)
