"""Which PopART this interface stands for."""

import hashlib
from importlib.metadata import version
from typing import Final

_INTERFACE_VERSION: Final = (3, 4, 0)


def versionNumber() -> tuple[int, int, int]:
    """Major, minor and point."""
    return _INTERFACE_VERSION


def versionString() -> str:
    """The version as a text."""
    return ".".join(map(str, _INTERFACE_VERSION))


def packageHash() -> str:
    """A text that is equal in equal builds: of tilestep's version and PopART's."""
    return hashlib.sha256(f"tilestep {version('tilestep')} popart {versionString()}".encode()).hexdigest()[:10]
