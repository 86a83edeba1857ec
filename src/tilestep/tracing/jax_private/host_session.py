"""A session of JAX's own profiler in memory, which gives way to the program's.

JAX allows one session at a time, and a second one would record nothing without a word. So a session that the program starts, by whichever
function of JAX, ends this one first.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, final

import jax
from jax._src import xla_bridge
from jax._src.lib import _profiler  # a C extension without stubs

from tilestep.hints import WALL_TIME_SESSION

_HOST_LEVEL: Final = 2
_WITHOUT_DEVICE_TRACERS: Final = {"cpu", "ipu"}

_profiler_module: Any = _profiler  # whose stubs make its classes constants


@final
class HostSession:
    """At most one session at a time, of this process.

    Args: gave_way: called when a session of the program has ended this one, with what was recorded; it must not use this object.
    """

    def __init__(self, gave_way: Callable[[bytes], None]) -> None:
        self._lock = threading.RLock()
        self._gave_way = gave_way
        self._session: Any = None
        self._process = os.getpid()
        self._has_server = self._has_devices = False
        self._replaced: dict[str, Any] = {}

    @property
    def is_running(self) -> bool:
        """Whether it records now."""
        return self._session is not None

    def start(self) -> bool:
        """Starts it. Returns: whether it records now; a session of the program, or a server for such, prevents that."""
        with self._lock:
            if self._session is not None:
                return True
            if (
                self._has_server or _profiler_module.TraceMe.is_enabled()
            ):  # the program records: a second session fails no earlier than at its end
                return False
            options = _profiler_module.ProfileOptions()
            options.python_tracer_level, options.host_tracer_level = 0, _HOST_LEVEL
            options.enable_hlo_proto, options.raise_error_on_start_failure = False, True
            options.session_id = WALL_TIME_SESSION
            try:
                self._session = self._original("ProfilerSession")(options)
            except jax.errors.JaxRuntimeError:  # the program's is running
                return False
            self._has_devices = bool(_device_platforms())
            return True

    def stop(self) -> bytes:
        """Ends it. Returns: what it has recorded, as an XSpace; b'' if it did not run."""
        with self._lock:
            session, self._session = self._session, None
            try:
                return b"" if session is None else session.stop()
            except jax.errors.JaxRuntimeError:  # it never began, because the program's was running
                return b""

    @property
    def should_restart(self) -> bool:
        """Whether platforms with a profiler of their own, such as GPUs, have started since it did: it cannot see them."""
        return self._session is not None and not self._has_devices and bool(_device_platforms())

    def guard(self) -> None:
        """From now on, sessions of the program end this one first."""

        def program_session(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._give_way()
                return self._replaced["ProfilerSession"](*args, **kwargs)

        def program_server(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                server = self._replaced["start_server"](*args, **kwargs)
                self._has_server = True  # it starts sessions whenever it is asked to
                self._give_way()
                return server

        self._replace("ProfilerSession", program_session)
        self._replace("start_server", program_server)

    def unguard(self) -> None:
        """Gives JAX's functions back."""
        for name, original in self._replaced.items():
            setattr(_profiler_module, name, original)

    def _replace(self, name: str, function: Callable[..., Any]) -> None:
        self._replaced[name] = getattr(_profiler_module, name)
        setattr(_profiler_module, name, function)

    def _original(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(_profiler_module, name)

    def _give_way(self) -> None:
        if self._session is not None and os.getpid() == self._process:
            self._gave_way(self.stop())


def _device_platforms() -> set[str]:
    """Platforms that have started and are none of those without a profiler of their own. Starts none."""
    return set(xla_bridge.backends()) - _WITHOUT_DEVICE_TRACERS if xla_bridge.backends_are_initialized() else set()
