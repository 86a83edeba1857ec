"""Shared by all commands: parsing, messages and tables."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast

from rich.console import Console
from rich.table import Table

from tilestep.messages import plain, shown

INTERRUPTED: Final = 130  # exit status of a command, or of a program in it, that Ctrl-C has ended
_NO_READER: Final = 1  # exit status of a command whose stdout nobody reads


class UsageError(Exception):
    """The command line is wrong. The message names the mistake and the way out."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors repeat what the user wrote without the characters that a terminal would obey."""

    def error(self, message: str) -> NoReturn:
        """Prints usage and message to stderr and leaves with exit status 2."""
        super().error(plain(message))


def tell(command: str, message: str) -> None:
    """Prints a line of `command` ("tilestep run") to stderr; nothing where there is no stderr, or nobody reads it."""
    if sys.stderr is not None:  # a process may have none
        with contextlib.suppress(OSError, ValueError):  # the latter: it is closed
            print(f"{command}: {message}", file=sys.stderr, flush=True)


def whole_number(highest: int) -> Callable[[str], int]:
    """A parser of an option's value: a whole number from 1 to `highest`."""

    def parse(text: str) -> int:
        if not (text.isdecimal() and len(text.lstrip("0")) <= len(str(highest)) and 1 <= int(text) <= highest):
            raise argparse.ArgumentTypeError(f"{shown(text)} must be a whole number, 1 to {highest:,}")
        return int(text)

    return parse


def values_of(text: str) -> list[str]:
    """The parser of 'a,b,c'. Raises: argparse.ArgumentTypeError for a value that is empty."""
    values = text.split(",")
    if "" in values:
        what = f"{shown(text)} has an empty value" if any(values) else "the list is empty"
        raise argparse.ArgumentTypeError(f"{what}: give values with commas between them, and none at the ends")
    return values


def whole_numbers(highest: int) -> Callable[[str], list[int]]:
    """A parser of whole numbers from 1 to `highest`, with commas between them."""
    return lambda text: list(map(whole_number(highest), values_of(text)))


def given_path(text: str) -> Path:
    """The parser of an option that names a file or a directory."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty: name a file or a directory")
    return Path(text)


class Once(argparse.Action):
    """An option that names a place to write to: the second of two would leave the first without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Raises: argparse.ArgumentError if the option was given before."""
        if getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, f"it is given twice: {shown(str(getattr(namespace, self.dest)))} and {shown(str(values))}")
        setattr(namespace, self.dest, values)


def working_directory() -> Path:
    """Raises: UsageError if it has been deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the working directory is gone ({error.strerror}): go to one that exists, or name files by absolute paths"
        ) from error


def print_table(table: Table, *, width_of_pipe: int) -> None:
    """Prints a table to stdout, `width_of_pipe` columns wide if stdout is no terminal. Cells are printed without markup."""
    with stdout_errors_told():
        console = Console(highlight=False, markup=False, emoji=False)
        if not console.file.isatty():
            console.width = width_of_pipe
        console.print(table)


@contextlib.contextmanager
def stdout_errors_told() -> Iterator[None]:
    """For a block that prints a command's result.

    Raises: SystemExit if stdout takes no more: quietly if it has no reader any longer, else with a message.
    """
    stdout: Any = sys.stdout  # None of a process without it
    if hasattr(stdout, "reconfigure") and stdout.errors in ("strict", "surrogateescape"):
        stdout.reconfigure(errors="backslashreplace")  # a terminal may know few characters, and files hold any
    try:
        yield
        if stdout is not None:
            stdout.flush()
    except OSError as error:
        if stdout is not None:
            discard(cast("IO[str]", stdout))
        if not isinstance(error, BrokenPipeError):
            tell("tilestep", f"stdout cannot be written: {error.strerror}")
        raise SystemExit(_NO_READER) from error


def discard(stream: IO[str]) -> None:
    """Discards everything that a stream has not written, because Python would try again when it ends, and fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
