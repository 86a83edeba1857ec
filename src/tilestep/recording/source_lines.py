"""The user's source files that a recording's frames name, so that costs can be shown beside the code."""

import linecache
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tilestep.files import read_file
from tilestep.plan.frames import own_frames
from tilestep.plan.steps import Program

MOST_FILE_BYTES: Final = 200_000  # a larger file is left out
MOST_BYTES: Final = 1_000_000  # all files together
_READ: Final[ContextVar[dict[str, str | None] | None]] = ContextVar("_READ", default=None)  # text by path; None: files are read each time


def source_files(programs: Iterable[Program]) -> dict[str, str]:
    """Path -> text of each file that has a line which the user wrote, and from which a step or a value comes.

    A file that cannot be read, or is too large, is left out. Cells of notebooks are files that only Python knows.
    """
    found: dict[str, str] = {}
    left = MOST_BYTES
    for path in sorted({path for program in programs for path in _files_of(program)}):
        text = source_text(path)
        if text is not None and len(text) <= left:
            found[path] = text
            left -= len(text)
    return found


def _files_of(program: Program) -> set[str]:
    frames = program.frames
    return {frames[number - 1].file for number in own_frames(frames)}


@contextmanager
def each_read_once() -> Iterator[None]:
    """Inside, no file is read twice, so that all that is said of it is said of the same text."""
    token = _READ.set({} if (known := _READ.get()) is None else known)
    try:
        yield
    finally:
        _READ.reset(token)


def source_text(path: str) -> str | None:
    """The text of a source file, or of a notebook's cell; None if it cannot be read, or is too large."""
    known = _READ.get()
    if known is None:
        return _read(path)
    if path not in known:
        known[path] = _read(path)
    return known[path]


def _read(path: str) -> str | None:
    try:
        return read_file(path, most_bytes=MOST_FILE_BYTES).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        if path not in linecache.cache:  # else it would look for a file of that name elsewhere, and read whatever it is
            return None
        lines = "".join(linecache.getlines(path))
        return lines if 0 < len(lines) <= MOST_FILE_BYTES else None
    except OSError:
        return None
