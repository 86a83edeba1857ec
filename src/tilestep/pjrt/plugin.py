"""Where JAX finds the platform: the `jax_plugins` entry point."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import sys
from typing import NoReturn

import jax

from tilestep.errors import UnsupportedError
from tilestep.pjrt import _native
from tilestep.pjrt.versions import require_not_too_old

PLATFORM = "ipu"
_PRIORITY = -1  # below CPU's 0: who names no platform gets what they had before
_LAST_WAIT_WALL_S = 60.0
_STANDSTILL_WALL_S = 30.0


@functools.cache
def initialize() -> None:
    """Registers the platform; called by JAX, once or again. Starts nothing.

    With a jax that is too old, what it registers says so to whoever asks for the platform, and to nobody else.
    """
    try:
        require_not_too_old(jax.__version__)
    except UnsupportedError as error:
        _register_refusal(error)
        return
    from tilestep.pjrt import compat  # leans on what this version has

    for module in ("buffer", "client", "device", "executable_entries", "layouts"):  # each fills in its entries of the table
        importlib.import_module(f"tilestep.pjrt.{module}")
    from tilestep.pjrt import callbacks
    from tilestep.pjrt.buffer import on_host
    from tilestep.pjrt.client import the_client
    from tilestep.pjrt.failure import describe
    from tilestep.pjrt.journal import FORGOTTEN

    _native.configure(describe, FORGOTTEN)
    compat.lower_like_cpu(PLATFORM)
    compat.choose_like_cpu(PLATFORM)
    compat.watch_guarded_reads(_native.guard_reads)
    compat.intercept_callbacks(PLATFORM, callbacks.keep)
    compat.cache_like_cpu(PLATFORM)
    compat.compile_ahead_alone(PLATFORM)
    compat.share_like_cpu(PLATFORM, on_host)
    compat.analyse_like_cpu(PLATFORM, lambda: the_client().host)
    compat.register_platform(PLATFORM, _native.capsule(), _PRIORITY)

    process = os.getpid()

    def leave() -> None:
        try:
            if os.getpid() == process:  # a fork has neither the threads to wait for nor a report of its own
                _finish()
                _write_report()
        finally:
            _native.close()

    atexit.register(leave)


def _register_refusal(error: UnsupportedError) -> None:
    from jax.extend.backend import register_backend_factory

    def refuse() -> NoReturn:
        raise error

    register_backend_factory(PLATFORM, refuse, priority=_PRIORITY)


def _finish() -> None:
    """Waits for what is under way; daemon threads begin nothing more."""
    from tilestep.pjrt.leaving import hold_back_daemons, stand_still
    from tilestep.pjrt.waiting import WAITERS

    if not WAITERS.started:
        return
    hold_back_daemons()
    WAITERS.finish(_LAST_WAIT_WALL_S)
    stand_still(WAITERS.is_idle, _STANDSTILL_WALL_S)
    WAITERS.finish(_LAST_WAIT_WALL_S)


def _write_report() -> None:
    """What POPLAR_ENGINE_OPTIONS' autoReport.all asks for: the profile of the whole process.

    The program has ended as it did: a report that cannot be written is told on stderr, and the exit status stays.
    """
    from tilestep.files import writable_directory
    from tilestep.messages import plain
    from tilestep.pjrt.client import started_client
    from tilestep.report import profile_between
    from tilestep.report.files import write_report

    client = started_client()
    if client is None or not client.in_use or client.settings.report_directory is None:
        return
    end = client.journal.mark()
    profile = profile_between(client.journal.system, client.journal.origin, end)
    try:
        write_report(profile, writable_directory(client.settings.report_directory))
    except OSError as error:
        told = f"tilestep: POPLAR_ENGINE_OPTIONS: autoReport.directory: {plain(error.filename)} cannot be written: {error.strerror}"
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  # of a process without it
            with contextlib.suppress(OSError):  # nobody reads it
                print(told, file=sys.stderr)
