"""Fresh Python processes: what is decided at start-up or at exit can be tested nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_WALL_S = 300.0
_FORKS = """
import json, os, sys
import jax, numpy, tilestep
for folder, settings, code in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.makedirs(folder)
        os.chdir(folder)
        for name, number in ("stdout", 1), ("stderr", 2):
            os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT), number)
        os.environ.update(settings)
        exec(code, {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
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


def forks(code: str, folder: Path, settings: Sequence[Mapping[str, str]]) -> list[subprocess.CompletedProcess[str]]:
    """As `attempt` for each of the settings, in forks of one process that has imported JAX and tilestep, and started no platform.

    So it suits variables that are read when a platform starts. The forks work in new folders "0", "1" and so on within `folder`.
    """
    runs = [(str(folder / str(number)), dict(each), textwrap.dedent(code)) for number, each in enumerate(settings)]
    command = [sys.executable, "-W", "error", "-X", "faulthandler", "-c", _FORKS]
    done = subprocess.run(
        command, env=environment(), input=json.dumps(runs), capture_output=True, text=True, timeout=LIMIT_WALL_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    texts = [[Path(f"{name}.{stream}").read_text() for stream in ("stdout", "stderr")] for name, _, _ in runs]
    return [subprocess.CompletedProcess(command, int(status), *text) for status, text in zip(done.stdout.split(), texts, strict=True)]
