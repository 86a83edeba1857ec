"""`tilestep run --popart`: runs a program that was written for PopART, unchanged, on tilestep's `popart`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tilestep.cli.program import Program, end_threads, run_program
from tilestep.cli.usage import INTERRUPTED, UsageError, discard, tell
from tilestep.engine_options import VARIABLE

_PLATFORM: Final = "cpu"  # of values; sessions are emulated on their devices' machines, not on the process's


def require_fitting(options: argparse.Namespace) -> None:
    """Raises: UsageError for options that say nothing of a PopART program."""
    for flag, given, why in (
        ("--dry-run", options.dry_run, "a PopART program reads what its sessions compute"),
        ("--json", options.json is not None, "each session has figures of its own, and --report writes those"),
        ("--all", options.all, "each session has figures of its own, and --report writes those"),
        ("--sync-pattern", options.sync_pattern is not None, "the devices that the program asks for say it"),
    ):
        if given:
            raise UsageError(f"{flag} doesn't go with --popart: {why}")
    if options.tiles is not None and options.machine is None:
        raise UsageError("--tiles changes the machine of --machine with --popart; without that, the program's devices say it")


def with_reports(environ: Mapping[str, str], directory: Path | None, *, lines: bool) -> dict[str, str]:
    """`environ` and the variable by which each session writes a report into a folder of `directory`; as it is if that is None.

    Args: lines: whether lines of the program's source are in it.
    """
    if directory is None:
        return dict(environ)
    stated = json.loads(os.environ.get(VARIABLE) or "{}")  # it has been read before, so it is right
    asked = {"autoReport.all": "true", "autoReport.directory": str(directory), **({} if lines else {"autoReport.outputDebugInfo": "false"})}
    return {**environ, VARIABLE: json.dumps({**stated, **asked})}


def run_popart(program: Program, environ: Mapping[str, str], command: str) -> int:
    """Runs the program, prints the figures of its sessions, and returns its exit code, or 2 if there is no PopART to run it on.

    Args: environ: settings of the machine; what they name goes before the devices that the program asks for, and a line says so.
    """
    import jax

    try:
        from tilestep.popart.install import install
        from tilestep.popart.session.emulation.watched import summary, watched_sessions

        install()
    except ImportError as error:
        tell(command, f"--popart: {error}")
        return 2
    os.environ.update({**environ, "JAX_PLATFORMS": _PLATFORM})
    config: Any = jax.config  # its update has no types
    config.update("jax_platforms", _PLATFORM)
    stderr, process = sys.stderr, os.getpid()
    with watched_sessions() as sessions:
        code = run_program(program)
        try:
            end_threads()
        except KeyboardInterrupt:
            code = INTERRUPTED
    if os.getpid() == process:  # else a fork of the program has come here
        _show(summary(sessions), stderr)
    return code


def _show(text: str, stderr: Any) -> None:
    if not text or stderr is None or stderr.closed:
        return
    try:
        print(f"\n{text}", file=stderr, flush=True)
    except OSError:  # nobody reads it any more
        discard(stderr)
