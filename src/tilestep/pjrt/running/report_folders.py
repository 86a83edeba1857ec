"""The folders that profiles under way will be written to. A program that does not fit leaves the report of its memory there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_folders: list[Path] = []


@contextlib.contextmanager
def report_folder(directory: Path | None) -> Iterator[None]:
    """Says, inside the block, that its profile will be written to a directory. None: it will not be written."""
    if directory is None:
        yield
        return
    _folders.append(directory)
    try:
        yield
    finally:
        _folders.remove(directory)


def report_folders() -> tuple[Path, ...]:
    """The directories of all blocks under way, the innermost first, each once."""
    return tuple(dict.fromkeys(reversed(_folders)))
