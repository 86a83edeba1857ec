"""Shared by the commands of `tilestep report`: opening recordings, printing tables, and telling what is wrong with one."""

import argparse
import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tilestep.cli.usage import given_path, print_table, stdout_errors_told, tell
from tilestep.errors import RecordingError
from tilestep.figures.file_names import PROGRAM_FILE, PROGRAMS
from tilestep.figures.reader import Report, open_report
from tilestep.messages import plain, printable
from tilestep.views.summary import Headings, table_of

PIPE_WIDTH = 140  # columns where stdout is no terminal
_LONGEST_LINE = 24  # characters in a table
WRONG = 2  # exit status for a recording that cannot be read


def add_path(parser: argparse.ArgumentParser, name: str = "path") -> None:
    """Adds the argument that names a recording."""
    parser.add_argument(
        name, metavar=name.upper(), type=given_path, help="a .tilestep file, the folder of a report, or one with a single .tilestep file"
    )


def exit_status(command: str, act: Callable[[], int]) -> int:
    """Does something with recordings; what is wrong with one goes to stderr, and its exit status is 2."""
    try:
        return act()
    except RecordingError as error:
        tell(command, str(error))
    except OSError as error:
        folder = Path(error.filename or ".").parent
        why = error.strerror if folder.exists() else f"there is no folder {plain(folder)}: make it, or name another"
        tell(command, f"{plain(error.filename)}: {why}" if error.filename else plain(error))
    return WRONG


def opened(command: str, path: Path) -> Report:
    """The recording of a file or folder. If nothing of a run is in it, but programs of the run have folders, that goes to stderr.

    Raises: RecordingError, OSError: as `open_report`.
    """
    report = open_report(path)
    programs = path / PROGRAMS
    if not report.parts and programs.is_dir() and (names := sorted(each.parent.name for each in programs.glob(f"*/{PROGRAM_FILE}"))):
        folder = shlex.quote(plain(programs / names[0]))
        more = f" (and {len(names) - 1} more there)" if len(names) > 1 else ""
        tell(command, f"{report.where} has no program: name the folder of one, {folder}{more}")
    return report


def line_text(line: str) -> str:
    """A line of source for a table: the end of 'examples/mnist/train.py:41' if that is long, because the number is there."""
    shown = plain(line)
    return (shown if len(shown) <= _LONGEST_LINE else f"…{shown[1 - _LONGEST_LINE :]}") or "-"


def print_json(document: object) -> None:
    """Prints a document to stdout, in ASCII: files hold characters that terminals obey, or cannot show."""
    text = json.dumps(document, indent=2).replace("\x7f", "\\u007f")
    with stdout_errors_told():
        print(text)


def print_line(text: str) -> None:
    """Prints a line to stdout, or a few."""
    with stdout_errors_told():
        print(printable(text))


def print_rows(title: str, words: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table whose first columns hold words and give way where space is short. Nothing if there are no rows."""
    rows = list(rows)
    if not rows:
        return
    print_line(title)
    print_table(table_of(Headings(title=title, words=tuple(words), figures=tuple(figures)), rows, least_width=12), width_of_pipe=PIPE_WIDTH)
    print_line("")
