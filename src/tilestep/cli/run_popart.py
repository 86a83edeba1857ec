"""`tilestep run --popart`: runs a program that was written for PopART, unchanged, on tilestep's `popart`."""

from __future__ import annotations

import argparse
import os
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
        ("--all", options.all, "each session has a report of its own, session.getReport()"),
    ):
        if given:
            raise UsageError(f"{flag} doesn't go with --popart: {why}")


def run_popart(program: Program, options: argparse.Namespace, command: str) -> int:
    """Runs the program and returns its exit code, or 2 if there is no PopART to run it on.

    A machine that `options` give wins over the devices that the program asks for, and a line to stderr says so.
    """
    import jax

    try:
        from tilestep.popart.given_machine import GivenMachine, give_machine
        from tilestep.popart.install import install

        install()
    except ImportError as error:
        tell(command, f"--popart: {error}")
        return 2
    os.environ["JAX_PLATFORMS"] = _PLATFORM
    config: Any = jax.config  # its update has no types
    config.update("jax_platforms", _PLATFORM)
    given = GivenMachine(name_or_path=options.machine, num_ipus=options.ipus, num_tiles=options.tiles, sync_pattern=options.sync_pattern)
    if given != GivenMachine():
        give_machine(given)
        words = (
            ("--machine", options.machine),
            ("--ipus", options.ipus),
            ("--tiles", options.tiles),
            ("--sync-pattern", options.sync_pattern),
        )
        told = " ".join(f"{flag} {value}" for flag, value in words if value is not None)
        tell(command, f"all sessions are emulated on the machine of {told}, whatever devices the program asks for")
    code = run_program(program)
    try:
        end_threads()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
