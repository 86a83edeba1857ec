"""Registers the platform."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
from typing import TYPE_CHECKING, NoReturn

import jax

from tilestep.errors import UnsupportedError
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private.versions import require_not_too_old
from tilestep.pjrt.platform import PLATFORM

if TYPE_CHECKING:
    from tilestep.pjrt.running.door import Door

_ENTRY_POINTS = ("table.buffer", "table.client", "table.device", "table.layouts", "programs.executable_entries")  # they fill the table
_PRIORITY = -1  # below CPU's 0, so that CPU stays the default platform
_LAST_WAIT_WALL_S = 60.0
_STANDSTILL_WALL_S = 30.0


@functools.cache
def initialize(door: Door) -> None:
    """Registers the platform, once. It starts nothing.

    With a jax that is too old it registers an error, which JAX raises only if a program asks for the platform.
    """
    try:
        require_not_too_old(jax.__version__)
    except UnsupportedError as error:
        _register_refusal(error)
        return
    from tilestep.pjrt.jax_private import compat, lowering  # need names that an older jax lacks

    for module in _ENTRY_POINTS:
        importlib.import_module(f"tilestep.pjrt.{module}")
    from tilestep.pjrt.programs import callbacks
    from tilestep.pjrt.programs.sizes import refuse_too_large
    from tilestep.pjrt.running.player import FORGOTTEN
    from tilestep.pjrt.table.buffer import on_host
    from tilestep.pjrt.table.client import any_machine, require_same_settings, the_client, use_door
    from tilestep.pjrt.table.status import describe

    use_door(door)
    _native.configure(describe, FORGOTTEN)
    lowering.lower_like_cpu(PLATFORM)
    lowering.choose_like_cpu(PLATFORM)
    compat.watch_guarded_reads(_native.guard_reads)
    compat.intercept_callbacks(PLATFORM, callbacks.keep)
    compat.look_before_compiling(PLATFORM, lambda module, devices: refuse_too_large(module, devices, any_machine().ipu))
    compat.look_before_devices(PLATFORM, require_same_settings)
    compat.cache_like_cpu(PLATFORM)
    compat.compile_ahead_alone(PLATFORM)
    compat.share_like_cpu(PLATFORM, on_host)
    compat.analyse_like_cpu(PLATFORM, lambda: the_client().host)
    if compat.can_profile():
        _native.serve_profiler(door.profiler_session)
        compat.register_profiler(_native.capsule())
    compat.register_platform(PLATFORM, _native.capsule(), _PRIORITY)

    process = os.getpid()

    def shut_down() -> None:
        try:
            if os.getpid() == process:  # a fork has no threads to wait for and writes no report
                _finish()
                door.at_exit()
        finally:
            _native.close()

    atexit.register(shut_down)


def _register_refusal(error: UnsupportedError) -> None:
    from jax.extend.backend import register_backend_factory

    def refuse() -> NoReturn:
        raise error

    register_backend_factory(PLATFORM, refuse, priority=_PRIORITY)


def _finish() -> None:
    """Waits for the work under way. Daemon threads begin no more of it."""
    from tilestep.pjrt.running.shutdown import hold_back_daemons, stand_still
    from tilestep.pjrt.running.wait_pool import WAIT_POOL

    if not WAIT_POOL.started:
        return
    hold_back_daemons()
    WAIT_POOL.finish(_LAST_WAIT_WALL_S)
    stand_still(WAIT_POOL.is_idle, _STANDSTILL_WALL_S)
    WAIT_POOL.finish(_LAST_WAIT_WALL_S)
