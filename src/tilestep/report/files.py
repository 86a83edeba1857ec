"""A profile on disk."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from tilestep.errors import SettingsError
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


def require_report_directory(directory: Path | None) -> None:
    """Makes the directory that POPLAR_ENGINE_OPTIONS names, if it names one: at the end of the program nobody is left to be told.

    Raises: SettingsError if no file can be written there.
    """
    if directory is None:
        return
    try:
        writable_directory(directory)
    except OSError as error:
        raise SettingsError(
            f"POPLAR_ENGINE_OPTIONS: autoReport.directory is '{directory}': it must be a directory that can be written to "
            f"({error.strerror})"
        ) from error


def write_report(profile: Profile, directory: Path) -> None:
    """Writes a profile as JSON, and its summary as text."""
    document, summary = (directory / name for name in REPORT_FILES)
    document.write_text(profile.to_json() + "\n", encoding="utf-8")
    summary.write_text(profile.summary() + "\n", encoding="utf-8")
