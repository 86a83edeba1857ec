"""Which version of the project a record was made with."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit(here: Path = Path(__file__).parent) -> str:
    """The commit's short name, with '+' if files were changed since; 'unknown' outside of a clone. Args: here: a checkout's benchmarks."""
    named = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain", "--", "../src"], cwd=here, capture_output=True, text=True, check=False)
    return named.stdout.strip() + "+" * bool(changed.stdout.strip()) if named.returncode == 0 else "unknown"
