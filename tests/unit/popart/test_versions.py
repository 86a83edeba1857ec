"""Which PopART the interface is that of."""

from __future__ import annotations

from tilestep.popart.versions import packageHash, versionNumber, versionString


def test_the_version_is_the_originals() -> None:
    assert versionString() == ".".join(map(str, versionNumber()))
    assert versionNumber()[0] == 3
    assert packageHash() == packageHash() != ""
