"""`tilestep run --popart`: runs a program that was written for PopART, unchanged, on tilestep's `popart`."""

import argparse
import contextlib
import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilestep.cli.program import Program, run_whole
from tilestep.cli.terminated import end
from tilestep.cli.usage import UsageError, discard, tell
from tilestep.engine_options import VARIABLE
from tilestep.files import write_file
from tilestep.messages import plain

_VALUES_PLATFORM: Final = "cpu"  # sessions are emulated on their devices' machines, not on the process's


def require_fitting(options: argparse.Namespace) -> None:
    """Raises: UsageError for options that say nothing of a PopART program."""
    for flag, given, why in (
        ("--dry-run", options.dry_run, "a PopART program reads what its sessions compute"),
        (
            "--json",
            options.json is not None and options.propose_stages is None,
            "each session has figures of its own, and --report writes those; with --propose-stages N it writes the proposals",
        ),
        ("--all", options.all, "each session has figures of its own, and --report writes those"),
        ("--no-intervals", options.no_intervals, "each session has figures of its own"),
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


def run_popart(
    program: Program,
    environ: Mapping[str, str],
    command: str,
    *,
    num_stages: int | None = None,
    json_path: Path | None = None,
    report_path: Path | None = None,
) -> int:
    """Runs the program, prints the figures of its sessions, and returns its exit code, or 2 if there is no PopART to run it on.

    Args:
        environ: settings of the machine; what they name goes before the devices that the program asks for, and a line says so.
        num_stages: also proposes so many stages for each session's model.
        json_path: where the proposals are written.
        report_path: where `environ` has the sessions write their reports; None: nowhere.
    """
    import jax

    try:
        from tilestep.cli.former_numpy import former_numpy
        from tilestep.popart.install import install
        from tilestep.popart.session.emulation.session_machine import summary, watched_sessions
        from tilestep.popart.session.proposals.session_registry import proposals, seen_sessions

        install()
    except ImportError as error:
        tell(command, f"--popart: {error}")
        return 2
    if report_path is not None and (instead := _other_directory(report_path)):
        tell(command, f"reports go to --report {plain(report_path)}; {VARIABLE} names {plain(instead)}, which gets none")
    os.environ.update({**environ, "JAX_PLATFORMS": _VALUES_PLATFORM})
    config: Any = jax.config  # its update has no types
    config.update("jax_platforms", _VALUES_PLATFORM)
    stderr, process = sys.stderr, os.getpid()
    seeing = contextlib.nullcontext([]) if num_stages is None else seen_sessions()
    with watched_sessions() as sessions, seeing as seen, former_numpy(functools.partial(tell, command)):
        code, ended_by = run_whole(program)
    if os.getpid() != process:  # a fork of the program has come here
        return code
    _show(summary(sessions), stderr)
    for session in sessions:
        session.close()
        if session.page is not None:
            tell(command, f"{plain(session.page)} shows session '{session.name}' in a browser")
    if report_path is not None and not any(_is_inside(session.page, report_path) for session in sessions):
        why = ": their engineOptions name another place" if any(session.page for session in sessions) else ""
        tell(command, f"no session wrote a report to {plain(report_path)}{why if sessions else ': the program made none'}")
    unwritten = 0 if num_stages is None else _propose(proposals(seen, num_stages), stderr, command, json_path)
    if ended_by.startswith("SIG"):
        end(code)
    return code or unwritten


def _other_directory(report_path: Path) -> str:
    """The directory that the variable names for reports, if it is another one; '' if not."""
    named = str(json.loads(os.environ.get(VARIABLE) or "{}").get("autoReport.directory", ""))
    return named if named and os.path.realpath(named) != os.path.realpath(report_path) else ""


def _is_inside(page: Path | None, directory: Path) -> bool:
    return page is not None and Path(os.path.realpath(page)).is_relative_to(os.path.realpath(directory))


def _propose(told: Sequence[Any], stderr: Any, command: str, json_path: Path | None) -> int:
    """Prints the proposals and writes them if they go to a file; returns 1 after a message if that cannot be written."""
    _show("\n\n".join(map(str, told)), stderr)
    try:
        if json_path is not None:
            write_file(json_path, json.dumps([each.as_dict() for each in told], ensure_ascii=False) + "\n")
    except OSError as error:
        tell(command, f"the proposals could not be written: {plain(error.filename)}: {error.strerror}")
        return 1
    return 0


def _show(text: str, stderr: Any) -> None:
    if not text or stderr is None or stderr.closed:
        return
    try:
        print(f"\n{text}", file=stderr, flush=True)
    except OSError:  # nobody reads it any more
        discard(stderr)
