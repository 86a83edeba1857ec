"""Which PopART this interface stands for."""

from __future__ import annotations

import hashlib
from typing import Final

_VERSION: Final = (3, 4, 0)  # of the original's sources, whose interface this is


def versionNumber() -> tuple[int, int, int]:
    """Major, minor and point."""
    return _VERSION


def versionString() -> str:
    """The version as a text."""
    return ".".join(map(str, _VERSION))


def packageHash() -> str:
    """A text that is equal in equal builds: of tilestep's version and PopART's."""
    from tilestep import __version__

    return hashlib.sha256(f"tilestep {__version__} popart {versionString()}".encode()).hexdigest()[:10]
