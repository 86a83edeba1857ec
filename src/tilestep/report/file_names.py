"""The names of a report's files."""

from __future__ import annotations

from typing import Final

from tilestep.record.schema import SUFFIX

RUN_FILE: Final = f"run{SUFFIX}"
PAGE_FILE: Final = "report.html"
REPORT_FILES: Final = ("profile.json", "summary.txt")
PROGRAM_FILE: Final = f"program{SUFFIX}"
MEMORY_FILE: Final = "memory.txt"
HLO_FILE: Final = "hlo.txt"
VARIABLES_FILE: Final = "lowered_vars.txt"
PROGRAMS: Final = "programs"
