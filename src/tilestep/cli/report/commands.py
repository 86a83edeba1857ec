"""`tilestep report COMMAND ...`: what can be done with recordings. Each command is a file with `add_parser(subparsers)` and `run(args)`."""

import argparse
from typing import Any

from tilestep.cli.report import compare, export, html, show, what_if

_COMMANDS = (show, html, compare, export, what_if)


def add_parser(subparsers: Any) -> None:
    """Adds `report` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="show, compare or export recordings of emulated runs",
        description="Shows, compares or exports recordings: those of tilestep run --report, tilestep.profile(DIR) and autoReport.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
