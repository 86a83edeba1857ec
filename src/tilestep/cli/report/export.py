"""`tilestep report export`: a recording in the forms of other tools."""

import argparse
from pathlib import Path
from typing import Any, Final

from tilestep.cli.report.opening import WRONG, add_path, exit_status, print_line
from tilestep.cli.usage import given_path, tell
from tilestep.errors import UnsupportedError
from tilestep.figures.reader import Report, open_report
from tilestep.files import write_file
from tilestep.messages import plain
from tilestep.recording.schema import SUFFIX
from tilestep.views.export.chrome import chrome_trace
from tilestep.views.export.parquet import write_parquet
from tilestep.views.export.timeline import Clock, timeline

_COMMAND: Final = "tilestep report export"


def add_parser(subparsers: Any) -> None:
    """Adds `export` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "export",
        help="write a recording for Perfetto or as Parquet",
        description="Writes a recording in the form of another tool. A trace has one clock: emulated time, or the host's wall time.",
    )
    add_path(parser)
    parser.add_argument(
        "--chrome",
        metavar="FILE",
        type=given_path,
        help="a trace for ui.perfetto.dev: JSON of Chrome's trace viewer, which many tools read",
    )
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
    return exit_status(_COMMAND, lambda: _export(args))


def _export(args: argparse.Namespace) -> int:
    trace: Path | None = args.chrome
    if not (trace or args.parquet):
        tell(_COMMAND, "nothing to write: name a file by --chrome, or a directory by --parquet")
        return WRONG
    report = open_report(args.path)
    if trace:
        if trace.suffix == SUFFIX or (args.path.is_file() and trace.exists() and trace.samefile(args.path)):
            tell(_COMMAND, f"{plain(trace)} is a recording: a trace goes into another file")
            return WRONG
        _write_trace(report, trace, args)
    if args.parquet:
        try:
            files = write_parquet(report, args.parquet, source=not args.no_source)
        except UnsupportedError as error:
            tell(_COMMAND, str(error))
            return WRONG
        print_line(f"{plain(args.parquet)}: {', '.join(file.name for file in files)}")
    return 0


def _write_trace(report: Report, file: Path, args: argparse.Namespace) -> None:
    clock: Clock = args.time or ("emulated" if "execution" in report.parts else "wall")
    found = timeline(report, clock=clock, source=not args.no_source)
    if not found.steps:
        tell(_COMMAND, "runs are not divided into their steps, because these would be more than a viewer takes")
    if args.time is None and clock == "emulated" and "system" in report.parts:
        tell(_COMMAND, "the trace is of emulated time; --time wall writes what the host did")
    content = chrome_trace(found)
    write_file(file, content)
    print_line(f"{plain(file)}: {len(content):,} B of {clock} time")
