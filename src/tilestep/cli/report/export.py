"""`tilestep report export`: a recording in the forms of other tools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from tilestep.cli.report.opening import WRONG, add_path, print_line, told
from tilestep.cli.usage import given_path, tell
from tilestep.errors import UnsupportedError
from tilestep.figures.reader import Report, open_report
from tilestep.files import write_file
from tilestep.messages import plain
from tilestep.recording.schema import SUFFIX
from tilestep.views.export.chrome import chrome_trace
from tilestep.views.export.parquet import write_parquet
from tilestep.views.export.perfetto import perfetto_trace
from tilestep.views.export.timeline import Clock, timeline

_COMMAND: Final = "tilestep report export"


def add_parser(subparsers: Any) -> None:
    """Adds `export` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "export",
        help="write a recording for Perfetto, Chrome's trace viewer or as Parquet",
        description="Writes a recording in the form of another tool. A trace has one clock: emulated time, or the host's wall time.",
    )
    add_path(parser)
    parser.add_argument("--perfetto", metavar="FILE", type=given_path, help="a trace for ui.perfetto.dev")
    parser.add_argument("--chrome", metavar="FILE", type=given_path, help="JSON of Chrome's trace viewer, which many tools read")
    parser.add_argument("--parquet", metavar="DIR", type=given_path, help="a Parquet file for each table (needs tilestep[parquet])")
    parser.add_argument(
        "--time",
        choices=("emulated", "wall"),
        help="the clock of a trace; default: emulated, or wall if nothing was emulated. They are never on one axis",
    )
    parser.add_argument("--no-source", action="store_true", help="leave lines and paths of the program's source out")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes files and prints their names. Returns 2 after a message to stderr if something is wrong."""
    return told(_COMMAND, lambda: _export(args))


def _export(args: argparse.Namespace) -> int:
    if not (args.perfetto or args.chrome or args.parquet):
        tell(_COMMAND, "nothing to write: name a file by --perfetto or --chrome, or a directory by --parquet")
        return WRONG
    report = open_report(args.path)
    traces = [each for each in (args.perfetto, args.chrome) if each]
    if len(traces) == 2 and traces[0].absolute() == traces[1].absolute():
        tell(_COMMAND, f"--perfetto and --chrome both name {plain(args.chrome)}: each needs a file of its own")
        return WRONG
    if own := [each for each in traces if each.suffix == SUFFIX or (args.path.is_file() and each.exists() and each.samefile(args.path))]:
        tell(_COMMAND, f"{plain(own[0])} is a recording: a trace goes into another file")
        return WRONG
    if args.perfetto or args.chrome:
        _write_traces(report, args)
    if args.parquet:
        try:
            files = write_parquet(report, args.parquet, source=not args.no_source)
        except UnsupportedError as error:
            tell(_COMMAND, str(error))
            return WRONG
        print_line(f"{plain(args.parquet)}: {', '.join(file.name for file in files)}")
    return 0


def _write_traces(report: Report, args: argparse.Namespace) -> None:
    clock: Clock = args.time or ("emulated" if "execution" in report.parts else "wall")
    found = timeline(report, clock=clock, source=not args.no_source)
    if not found.steps:
        tell(_COMMAND, "runs are not divided into their steps, because these would be more than a viewer takes")
    if args.time is None and clock == "emulated" and "system" in report.parts:
        tell(_COMMAND, "the trace is of emulated time; --time wall writes what the host did")
    files: tuple[tuple[Path | None, Any], ...] = ((args.perfetto, perfetto_trace), (args.chrome, chrome_trace))
    for file, make in files:
        if file is not None:
            content: bytes = make(found)
            write_file(file, content)
            print_line(f"{plain(file)}: {len(content):,} B of {clock} time")
