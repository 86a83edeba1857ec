"""`tilestep report show`: what is in a recording."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from tilestep.cli.report.opening import add_path, line_text, opened, print_json, print_line, print_rows, told
from tilestep.messages import plain
from tilestep.report.lane_names import KIND_TEXTS
from tilestep.report.overview import Overview, overview
from tilestep.report.quantities import bytes_text, count_text, share_text, time_text
from tilestep.report.scopes import short_scope

_COMMAND: Final = "tilestep report show"
_MOST: Final = 15  # rows of a table


def add_parser(subparsers: Any) -> None:
    """Adds `show` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "show",
        help="show what is in a recording",
        description="Shows a recording: its time, programs, memory by category, the largest steps by line of source, and its runs.",
    )
    add_path(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with all rows, instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 2 after a message to stderr if there is no such recording, or it is damaged."""
    return told(_COMMAND, lambda: _show(overview(opened(_COMMAND, args.path)), as_json=args.json))


def _show(found: Overview, *, as_json: bool) -> int:
    if as_json:
        print_json({**asdict(found), "emulated_s": found.emulated_s})
        return 0
    print_line(_head(found))
    print_line("")
    _print_time(found)
    _print_programs(found)
    _print_memory(found)
    _print_steps(found)
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


def _print_time(found: Overview) -> None:
    kinds = sorted(found.cycles_by_kind.items(), key=lambda entry: -entry[1])
    rows = [
        (KIND_TEXTS.get(kind, kind), f"{cycles:,}", _time(found, cycles), share_text(cycles, found.emulated_cycles))
        for kind, cycles in kinds
    ]
    print_rows(f"Time of IPU {found.busiest_ipu}, the busiest", ("what",), ("cycles", "time", "share"), rows)


def _print_programs(found: Overview) -> None:
    programs = sorted(found.programs, key=lambda program: -program.cycles)
    rows = [
        (
            plain(program.label),
            f"{program.runs:,}",
            f"{program.loads:,}",
            f"{program.num_ipus:,}",
            f"{program.cycles:,}",
            share_text(program.cycles, found.emulated_cycles),
            "-" if program.flops_per_run is None else f"{program.flops_per_run:,}",
            "-" if program.peak_tile_bytes is None else share_text(program.peak_tile_bytes, found.tile_sram_bytes),
            plain(program.fingerprint[:8]) or "-",
        )
        for program in programs[:_MOST]
    ]
    print_rows("Programs", ("program",), ("runs", "loads", "IPUs", "cycles", "share", "flops/run", "tile", "fingerprint"), rows)
    _print_more(len(programs), "program")


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


def _print_steps(found: Overview) -> None:
    rows = [
        (
            line_text(step.line),
            plain(short_scope(step.scope)) or plain(step.family),
            plain(step.family),
            plain(step.program),
            f"{step.executions:,}",
            f"{step.cycles:,}",
            share_text(step.cycles, found.emulated_cycles),
            *(share_text(part, step.cycles) for part in (step.compute, step.exchange + step.collective, step.sync, step.host_call)),
        )
        for step in found.steps[:_MOST]
    ]
    figures = ("times", "cycles", "share", "compute", "exchange", "sync", "host")
    print_rows("Largest steps by line", ("line", "operation", "family", "program"), figures, rows)
    _print_more(len(found.steps), "step")


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


def _print_more(count: int, noun: str) -> None:
    if count > _MOST:
        print_line(f"and {count_text(count - _MOST, f'more {noun}')}; --json has all\n")
