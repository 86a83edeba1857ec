"""A profile on disk."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from tilestep.report.profile import Profile

REPORT_FILES = ("profile.json", "summary.txt")


def writable_directory(directory: str | PathLike[str]) -> Path:
    """Makes a directory if it is missing. Raises: OSError if it cannot be made, or no file can be made in it."""
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    probe = path / ".tilestep-probe"
    probe.touch()
    probe.unlink()
    return path


def write_report(profile: Profile, directory: Path) -> None:
    """Writes a profile as JSON, and its summary as text."""
    document, summary = (directory / name for name in REPORT_FILES)
    document.write_text(profile.to_json() + "\n", encoding="utf-8")
    summary.write_text(profile.summary() + "\n", encoding="utf-8")
