"""The folders that profiles under way will be written to. A program that does not fit leaves the report of its memory there."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

_folders: list[tuple[Path, bool]] = []


@contextlib.contextmanager
def report_folder(directory: Path | None, *, lines: bool = True) -> Iterator[None]:
    """Says, inside the block, that its profile will be written to a directory. None: it will not be written.

    Args: lines: whether lines of the user's source may be there.
    """
    if directory is None:
        yield
        return
    folder = (directory, lines)
    _folders.append(folder)
    try:
        yield
    finally:
        _folders.remove(folder)


def report_folders() -> Mapping[Path, bool]:
    """The directories of all blocks under way, the innermost first, and whether lines of the user's source may be in each."""
    found: dict[Path, bool] = {}
    for directory, lines in reversed(_folders):
        found[directory] = found.get(directory, True) and lines
    return found
