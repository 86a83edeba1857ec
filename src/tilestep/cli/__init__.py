"""The command line: `tilestep COMMAND ...`. Each command is a file with `add_parser(subparsers)` and `run(args) -> int`."""

import argparse
from collections.abc import Sequence

from tilestep import __version__
from tilestep.cli import bench_data, checkpoints, machines, onnx, plan, run
from tilestep.cli.report import commands as report
from tilestep.cli.sweep import command as sweep
from tilestep.cli.usage import INTERRUPTED, Parser
from tilestep.tracing.process import discard

_RUN_PROGRAMS = (run.run, onnx.run, bench_data.run)  # others are no programs that anybody wants a trace of


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Its result has `.run`, the function that carries the command out."""
    parser = Parser(
        prog="tilestep",
        description="Run any JAX program on an emulated IPU: real values, and the time and memory it would have taken.",
    )
    parser.add_argument("--version", action="version", version=f"tilestep {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (run, sweep, plan, report, machines, onnx, checkpoints, bench_data):
        command.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out one command line (without the program's name; that of the process if None) and returns the exit code.

    Ctrl-C ends a command quietly.

    Raises: SystemExit with code 2 if the arguments are wrong, with 0 after --help and --version.
    """
    try:
        args = make_parser().parse_args(arguments)
        if args.run not in _RUN_PROGRAMS:
            discard()
        return args.run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
