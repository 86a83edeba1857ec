"""The names of a report's files."""

import re
from typing import Final

from tilestep.recording.schema import SUFFIX

RUN_FILE: Final = f"run{SUFFIX}"
PAGE_FILE: Final = "report.html"
REPORT_FILES: Final = ("profile.json", "summary.txt")
PROGRAM_FILE: Final = f"program{SUFFIX}"
MEMORY_FILE: Final = "memory.txt"
HLO_FILE: Final = "hlo.txt"
VARIABLES_FILE: Final = "lowered_vars.txt"
PROGRAMS: Final = "programs"

_NO_FILE_NAME: Final = re.compile(r"[^\w.+-]+", re.ASCII)
_LONGEST_NAME: Final = 100  # characters


def folder_name(name: str, *, otherwise: str) -> str:
    """A program's or a session's name as that of one folder, which lies in its parent whatever the name is.

    Args: otherwise: the folder's name if nothing of it is left.
    """
    return _NO_FILE_NAME.sub("_", name).strip(".")[:_LONGEST_NAME] or otherwise
