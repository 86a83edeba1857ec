"""`tilestep sweep`: finds what fits, and what is fastest, by dry runs of an unchanged program over a product of settings."""

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tilestep.cli.program import Program
from tilestep.cli.run import read_program, split_words
from tilestep.cli.sweep.runs import SettingRun, keep, kept, measure
from tilestep.cli.sweep.setting import Measured
from tilestep.cli.sweep.settings import SweepPoint, different_values, named_values, settings_of
from tilestep.cli.sweep.sweep_table import SweepRow, answers_text, csv_text, json_text, plot, table_of
from tilestep.cli.terminated import told_first
from tilestep.cli.usage import INTERRUPTED, Once, Parser, UsageError, given_path, print_table, stdout_errors_told, tell, whole_number
from tilestep.files import require_writable, writable_directory, write_file
from tilestep.messages import plain, shown
from tilestep.settings import MAX_IPUS
from tilestep.train import progress_bar
from tilestep.views.front import FORMS, require_matplotlib

_COMMAND: Final = "tilestep sweep"
_WIDTH_OF_PIPE: Final = 140  # columns where stdout is no terminal
_MOST_ITEMS: Final = 2**53
_OPTIONS: Final[tuple[tuple[str, str, Callable[[str], Any], str], ...]] = (  # name, what its value is called, its parser, its help
    ("--machine", "A,B", different_values, "machines: names or TOML files"),
    ("--ipus", "N,M", lambda text: [_IPUS(each) for each in different_values(text)], "numbers of IPUs, 1 to 256 (default: the machine's)"),
    ("--env", "NAME=V,W", named_values, "values of an environment variable"),
    ("--set", "NAME=V,W", named_values, "values of {NAME} in the program's arguments"),
    ("--items", "N", str, "items of a step, for items a second: a number, or {NAME} (default: what the program's inputs show)"),
    ("--trip-count", "N", whole_number(2**31 - 1), "trips of each loop whose end depends on data"),
    ("--processes", "N", whole_number(1024), "dry runs at once (default: as many as cores)"),
    ("--out", "DIR", given_path, "keep a file for each setting there; a later sweep goes on from them"),
    ("--json", "FILE", given_path, "also write all figures as JSON"),
    ("--csv", "FILE", given_path, "also write all figures as comma-separated values"),
    ("--plot", "FILE", given_path, "also draw time against IPUs and memory: a .png or .svg file"),
)
_MANY: Final = ("--env", "--set")
_IPUS: Final = whole_number(MAX_IPUS)
TAKE_A_VALUE: Final = tuple(name for name, *_ in _OPTIONS)
_USAGE: Final = (
    f"{_COMMAND} {' '.join(f'[{name} {metavar}]' for name, metavar, *_ in _OPTIONS)} (SCRIPT | -m MODULE | -c CODE) [ARGS with {{NAME}}]"
)


def add_parser(subparsers: Any) -> None:
    """Adds `sweep` to the subparsers of `tilestep`. It takes all words as they are, as `run` does."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "sweep",
        help="find what fits and what is fastest: dry runs of a program over machines, IPUs and values",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def _option_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_COMMAND,
        usage=_USAGE,
        description="Runs an unchanged Python program dry with each combination of the given values, in parallel processes, and says which "
        "fit, how long a step takes, and which is the smallest and the fastest that fits. Values that the program reads are zeros.",
        epilog="The program is SCRIPT, -m MODULE or -c CODE, as for tilestep run. Options come before it; all that follows belongs to the "
        "program, with a value of --set NAME=... in place of each {NAME}.",
        allow_abbrev=False,
    )
    for name, metavar, parse, meaning in _OPTIONS:
        if name in _MANY:
            parser.add_argument(name, type=parse, action="append", default=[], metavar=metavar, help=meaning)
        else:
            parser.add_argument(name, type=parse, action=Once, metavar=metavar, help=meaning)
    return parser


def run(args: argparse.Namespace) -> int:
    """Runs the sweep and prints its table.

    Returns: 0; 1 if nothing could be measured, or a file could not be written; 2 if the command line is wrong; 130 after Ctrl-C.

    Raises: SystemExit with code 2 if an option is wrong, with 0 after --help.
    """
    own, rest = split_words(args.words, TAKE_A_VALUE)
    options = _option_parser().parse_args(own)
    try:
        program = read_program(rest, _USAGE)
        settings = settings_of(
            program, machines=options.machine or (), ipus=options.ipus or (), env=options.env, values=options.set, items=options.items
        )
        items = [_items(options.items, setting) for setting in settings]
        runs = [_run(setting, program, options.trip_count) for setting in settings]
        _require_places(options)
    except (UsageError, ImportError) as error:
        tell(_COMMAND, str(error))
        return 2
    found: dict[int, Measured] = {}
    try:
        interrupted = _measure(runs, found, options)
        rows = [
            SweepRow(setting=settings[at], command=settings[at].command(program, options.trip_count), found=found[at], items=items[at])
            for at in sorted(found)
        ]
        _tell(rows, options)
    except OSError as error:
        tell(_COMMAND, f"{plain(error.filename)} could not be written: {error.strerror}")
        return 1
    if interrupted:
        goes_on = "" if options.out is None else "; the same command goes on from them"
        tell(_COMMAND, f"Ctrl-C: {len(found):,} of {len(runs):,} settings are done{goes_on}")
        return INTERRUPTED
    return 0 if any(row.found.outcome not in ("failed", "killed") for row in rows) else 1


def _items(text: str | None, setting: SweepPoint) -> int | None:
    if text is None:
        return None
    try:
        return whole_number(_MOST_ITEMS)(setting.filled(text))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--items: {error}") from error


def _run(setting: SweepPoint, program: Program, trip_count: int | None) -> SettingRun:
    environ = setting.environ(os.environ)
    return SettingRun(setting=setting, program=setting.arguments_of(program), environ=environ, trip_count=trip_count)


def _require_places(options: argparse.Namespace) -> None:
    """Raises: UsageError for a place that cannot be written to; ImportError for a picture without Matplotlib."""
    if options.plot is not None:
        if options.plot.suffix[1:].lower() not in FORMS:
            raise UsageError(f"--plot {plain(options.plot)}: its name must end with {' or '.join(f'.{form}' for form in FORMS)}")
        require_matplotlib()
    given = [(name, path) for name in ("json", "csv", "plot") if (path := getattr(options, name)) is not None]
    paths = [os.path.realpath(path) for _, path in given]
    if len(set(paths)) < len(paths):
        raise UsageError(f"two of {', '.join(f'--{name}' for name, _ in given)} name the same file: {shown(str(given[-1][1]))}")
    try:
        for _, path in given:
            require_writable(path)
        if options.out is not None:
            writable_directory(options.out)
    except OSError as error:
        raise UsageError(f"{plain(error.filename)} cannot be written to: {error.strerror}") from error


def _measure(runs: Sequence[SettingRun], found: dict[int, Measured], options: argparse.Namespace) -> bool:
    """Fills `found`, by the runs' indices, from kept files and from processes; returns whether Ctrl-C came. Raises: OSError."""
    folder: Path | None = options.out
    if folder is not None:
        found.update((at, row) for at, run in enumerate(runs) if (row := kept(run, folder)) is not None)
    if found:
        tell(_COMMAND, f"{len(found):,} of {len(runs):,} settings are in {plain(folder)}")
    rest = [at for at in range(len(runs)) if at not in found]
    processes = min(options.processes or len(os.sched_getaffinity(0)), max(len(rest), 1))
    bar = progress_bar.shown("settings", len(runs), Console(stderr=True)) if rest else nullcontext((_nothing, _nothing))
    try:
        with told_first(), bar as (progress, _):
            progress(len(found))

            def done(index: int, row: Measured) -> None:
                found[rest[index]] = row
                progress(len(found))
                if folder is not None:
                    keep(runs[rest[index]], row, folder)

            measure([runs[at] for at in rest], processes=processes, done=done)
    except KeyboardInterrupt:
        return True
    return False


def _nothing(_: Any) -> None:
    return None


def _tell(rows: Sequence[SweepRow], options: argparse.Namespace) -> None:
    if rows:
        print_table(table_of(rows), width_of_pipe=_WIDTH_OF_PIPE)
    with stdout_errors_told():
        print(answers_text(rows))
    if options.json is not None:
        write_file(options.json, json_text(rows))
    if options.csv is not None:
        write_file(options.csv, csv_text(rows))
    if options.plot is not None:
        plot(rows, options.plot)
