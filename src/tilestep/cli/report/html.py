"""`tilestep report html`: a recording as a page for a browser."""

import argparse
from pathlib import Path
from typing import Any, Final

from tilestep.cli.report.opening import WRONG, add_path, exit_status, opened, print_line
from tilestep.cli.usage import given_path, tell
from tilestep.figures.file_names import PAGE_FILE
from tilestep.files import write_file
from tilestep.messages import plain
from tilestep.recording.schema import SUFFIX
from tilestep.views.page import page_html

_COMMAND: Final = "tilestep report html"


def add_parser(subparsers: Any) -> None:
    """Adds `html` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "html",
        help="write a recording as one page for a browser",
        description="Writes a recording, or two to compare, as one HTML file that needs no network.",
    )
    add_path(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", type=given_path, help="a second recording, to compare")
    parser.add_argument("-o", "--output", metavar="FILE", type=given_path, help="default: report.html beside the recording")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the file and prints its name. Returns 2 after a message to stderr if a recording cannot be read or the file written."""
    return exit_status(_COMMAND, lambda: _write(args))


def _write(args: argparse.Namespace) -> int:
    report = opened(_COMMAND, args.path)
    other = opened(_COMMAND, args.other) if args.other else None
    names = (label_of(args.path), label_of(args.other) if args.other else "")
    given = [path for path in (args.path, args.other) if path and path.is_file()]
    target: Path = args.output or (args.path if args.path.is_dir() else args.path.parent) / PAGE_FILE
    if target.suffix == SUFFIX or any(target.exists() and target.samefile(path) for path in given):
        tell(_COMMAND, f"{plain(target)} is a recording: a page goes into another file, such as {PAGE_FILE}")
        return WRONG
    text = page_html(report, other, labels=names)
    write_file(target, text)
    print_line(f"{plain(target)}: {len(text.encode()):,} B")
    return 0


def label_of(path: Path) -> str:
    """What a page calls a recording: the folder's name, or the file's without its ending."""
    full = path.resolve()
    return full.name if full.is_dir() else full.parent.name if full.stem == "run" else full.stem
