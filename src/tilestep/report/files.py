"""A profile on disk."""

from __future__ import annotations

from pathlib import Path

from tilestep.errors import SettingsError
from tilestep.files import writable_directory, write_file
from tilestep.messages import plain
from tilestep.report.profile import Profile

REPORT_FILES = ("profile.json", "summary.txt")


def require_report_directory(directory: Path | None) -> None:
    """Makes the directory that POPLAR_ENGINE_OPTIONS names, if it names one, because an error at the end of the program would reach nobody.

    Raises: SettingsError if no file can be written there.
    """
    if directory is None:
        return
    try:
        writable_directory(directory)
    except OSError as error:
        raise SettingsError(
            f"POPLAR_ENGINE_OPTIONS: autoReport.directory is '{plain(directory)}': it must be a directory that can be written to "
            f"({error.strerror})"
        ) from error


def write_report(profile: Profile, directory: Path) -> None:
    """Writes a profile as JSON, and its summary as text. Raises: OSError naming the file that cannot be written."""
    for name, text in zip(REPORT_FILES, (profile.to_json(), profile.summary()), strict=True):
        write_file(directory / name, text + "\n")
