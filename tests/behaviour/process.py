"""Fresh Python processes: what is decided at start-up or at exit can be tested nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping

LIMIT_WALL_S = 300.0
OWN_PREFIXES = ("JAX_", "TILESTEP_", "XLA_", "POPLAR_", "PVTI_")


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without anything that sets JAX or tilestep, and with `settings`.

    Programs are compiled as the tests' own are.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_PREFIXES) or name == "XLA_FLAGS"}
    return kept | dict(settings or {})


def attempt(code: str, *, strict: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` with environment variables `settings`; with `strict`, warnings are errors."""
    options = ["-W", "error"] if strict else []
    command = [sys.executable, *options, "-X", "faulthandler", "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=environment(settings), capture_output=True, text=True, timeout=LIMIT_WALL_S, check=False)


def python(code: str, *, strict: bool = True, **settings: str) -> subprocess.CompletedProcess[str]:
    """As `attempt`, but the process has to end well."""
    result = attempt(code, strict=strict, **settings)
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result
