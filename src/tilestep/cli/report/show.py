"""`tilestep report show`: what is in a recording."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from tilestep.cli.report.opening import add_path, opened, print_json, print_line, print_rows, told
from tilestep.figures.overview import Overview, overview
from tilestep.figures.quantities import bytes_text, count_text, share_text, time_text
from tilestep.figures.reader import Report
from tilestep.messages import plain
from tilestep.views.files import unfit
from tilestep.views.stored import stored_profile

_COMMAND: Final = "tilestep report show"
_MOST: Final = 15  # rows of a table
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
    return told(_COMMAND, lambda: _show(opened(_COMMAND, args.path), as_json=args.json))


def _show(report: Report, *, as_json: bool) -> int:
    found, profile = overview(report), stored_profile(report)
    if as_json:
        print_json({**asdict(found), "emulated_s": found.emulated_s, "profile": report.profile or None})
        return 0
    if profile is not None:
        print_line(profile.summary(width=_WIDTH, before=unfit(report.tables)))
        print_line("")
    print_line(_head(found))
    print_line("")
    _print_memory(found)
    _print_runs(found)
    _print_threads(found)
    return 0


def _head(found: Overview) -> str:
    parts = ", ".join(found.parts) or "nothing"
    head = f"recording of tilestep {plain(found.tilestep)} with {parts}"
    if found.machine:
        head += f", on {plain(found.machine)} ({count_text(found.num_ipus, 'IPU')})"
    if "execution" in found.parts:
        head += f": {time_text(found.emulated_s)} emulated, {count_text(sum(run.runs for run in found.runs), 'program run')}"
        head += f", {count_text(found.events, 'event')}"
    return f"{head}, journal of {count_text(found.journal_calls, 'call')}" if found.journal_calls else head


def _time(found: Overview, cycles: float) -> str:
    return time_text(cycles / found.clock_hz if found.clock_hz else 0.0)


def _print_memory(found: Overview) -> None:
    """Of the program whose fullest tile holds most."""
    known = [program for program in found.programs if program.memory]
    fullest = max(known, key=lambda program: program.peak_tile_bytes or 0, default=None)
    if fullest is not None and fullest.memory:
        total = sum(fullest.memory.values())
        parts = sorted(fullest.memory.items(), key=lambda part: -part[1])
        rows = [(plain(kind), f"{size:,}", share_text(size, found.tile_sram_bytes)) for kind, size in (*parts, ("together", total))]
        title = f"Memory of the fullest tile of '{plain(fullest.label)}', which has {bytes_text(found.tile_sram_bytes)}"
        print_rows(title, ("what",), ("bytes", "of the tile"), rows)
    detailed = sum(program.detailed for program in found.programs)
    if 0 < detailed < len(found.programs):
        print_line(
            f"The lives of values are those of {detailed:,} of {count_text(len(found.programs), 'program')}; of others only the peak.\n"
        )


def _print_runs(found: Overview) -> None:
    rows = [
        (plain(row.program), f"{row.runs:,}", f"{row.in_detail:,}", _time(found, row.first_cycle), _time(found, row.last_cycle))
        for row in found.runs[:_MOST]
    ]
    print_rows("Runs", ("program",), ("runs", "in detail", "first dispatched", "last dispatched"), rows)


def _print_threads(found: Overview) -> None:
    rows = [
        (f"{row.process}", plain(row.thread), f"{row.events:,}", time_text(row.busy_wall_s))
        for row in sorted(found.threads, key=lambda row: -row.busy_wall_s)[:_MOST]
    ]
    print_rows("Threads of the host, in wall time", ("process", "thread"), ("events", "busy"), rows)
