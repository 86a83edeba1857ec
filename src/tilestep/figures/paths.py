"""Paths of source files as others may see them: relative to what they have in common."""

import os
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

_INSTALLED = "site-packages"


def relative_paths(files: Iterable[str]) -> Callable[[str], str]:
    """A function that gives a path without the folders that all absolute ones have in common.

    Files of installed packages are named from the package on, so that they tell nothing of the machine that they are on.
    """
    absolute = {file for file in files if os.path.isabs(file) and _INSTALLED not in PurePosixPath(file).parts}
    folders = [os.path.dirname(file) for file in absolute]
    root = os.path.commonpath(folders) if folders else ""
    if root == os.sep:  # they have nothing in common
        absolute = set[str]()

    def relative(file: str) -> str:
        parts = PurePosixPath(file).parts
        if _INSTALLED in parts:
            return str(PurePosixPath(*parts[len(parts) - parts[::-1].index(_INSTALLED) :] or ("",)))
        return os.path.relpath(file, root) if file in absolute else file

    return relative
