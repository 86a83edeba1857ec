"""`tilestep run --popart`: runs a program that was written for PopART, unchanged, on tilestep's `popart`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

from tilestep.cli.program import Program, end_threads, run_program
from tilestep.cli.usage import INTERRUPTED, UsageError, tell

_PLATFORM: Final = "cpu"  # of values; sessions are emulated on their devices' machines, not on the process's


def require_fitting(options: argparse.Namespace) -> None:
    """Raises: UsageError for options that say nothing of a PopART program."""
    for flag, given, why in (
        (
            "--dry-run",
            options.dry_run,
            "a PopART program reads what its sessions compute; for a price without values, compile its model only",
        ),
        ("--json", options.json is not None, "each session has a report of its own, session.getReport()"),
        ("--report", options.report is not None, "each session has a report of its own, session.getReport()"),
        ("--ipus", options.ipus is not None, "the devices that the program asks for say how many IPUs they have"),
        ("--all", options.all, "each session has a report of its own, session.getReport()"),
    ):
        if given:
            raise UsageError(f"{flag} doesn't go with --popart: {why}")
    for flag, given in (("--tiles", options.tiles), ("--sync-pattern", options.sync_pattern)):
        if given is not None and options.machine is None:
            raise UsageError(f"{flag} changes the machine of --machine with --popart; without that, the program's devices say it")


def run_popart(program: Program, environ: Mapping[str, str], command: str) -> int:
    """Runs the program and returns its exit code, or 2 if there is no PopART to run it on.

    Args: environ: settings of the machine; what they name goes before the devices that the program asks for, and the sessions say so.
    """
    import jax

    try:
        from tilestep.popart.install import install

        install()
    except ImportError as error:
        tell(command, f"--popart: {error}")
        return 2
    os.environ.update({**environ, "JAX_PLATFORMS": _PLATFORM})
    config: Any = jax.config  # its update has no types
    config.update("jax_platforms", _PLATFORM)
    code = run_program(program)
    try:
        end_threads()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
