"""Follows what JAX does on the host's threads and on real devices, in sessions of its profiler one after the other."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from tilestep.tracing.channels import DRIVERS, FRAMEWORK, is_channel_enabled
from tilestep.tracing.host_spans import Threads, host_spans, prepare
from tilestep.tracing.jax_private.host_session import HostSession
from tilestep.tracing.table import TraceTable

_LONGEST_SESSION_WALL_S: Final = 20.0  # JAX keeps a session in memory
_FIRST_WALL_S: Final = 2.0
_SHORTEST_WALL_S: Final = 0.5
_SESSION_BYTES: Final = 2 * 2**20  # about. JAX ends one of 2 MB in 0.1 s and one of 15 MB in 2 s, and records nothing meanwhile


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """What a session has recorded: an XSpace, the session's begin in Unix time, and which channels were wanted."""

    space: bytes
    begin_ns: int
    channels: frozenset[str]


@final
class Follower:
    """The sessions of this process.

    Args: changed: called when JAX is followed from now on (True), or the program takes a profile of its own (False), with Unix time.
    Attributes:
        unseen_ns: for how long JAX was not followed because one session ended and the next began.
    """

    def __init__(self, changed: Callable[[bool, int], None]) -> None:
        self._session = HostSession(self._gave_way)
        self._changed = changed
        self._ended: list[_Ended] = []
        self._channels: frozenset[str] = frozenset()
        self._begin_ns, self._wall_s = 0, _FIRST_WALL_S
        self.unseen_ns = 0

    def guard(self) -> None:
        """From now on, a profile that the program takes goes before. For the main thread, before other threads are there."""
        prepare()
        self._session.guard()

    def unguard(self) -> None:
        """Leaves JAX's functions as they were."""
        self._session.unguard()

    def tend(self) -> None:
        """Starts a session if there should be one and there is none, and ends one that nobody wants any more."""
        channels = frozenset(name for name in (FRAMEWORK, DRIVERS) if is_channel_enabled(name))
        if channels != self._channels:
            self.stop()
        self._channels = channels
        if channels and not self._session.is_running:
            begin_ns = time.time_ns()
            if self._session.start():
                self._begin_ns = begin_ns
                self._changed(True, begin_ns)

    def stop(self) -> None:
        """Ends the session; what it has recorded waits for `fetch`."""
        self._keep(self._session.stop())

    def next_session(self) -> None:
        """Ends the session, and begins another one."""
        stopped_ns = time.time_ns()
        self.stop()
        self.tend()
        self.unseen_ns += time.time_ns() - stopped_ns

    @property
    def is_due(self) -> bool:
        """Whether what was recorded should be fetched."""
        running_s = (time.time_ns() - self._begin_ns) / 1e9
        is_old = self._session.is_running and (running_s >= self._wall_s or self._session.should_restart)
        return is_old or sum(len(ended.space) for ended in list(self._ended)) > _SESSION_BYTES

    def fetch(self, table: TraceTable, threads: Threads) -> None:
        """Adds what ended sessions have recorded. Args: threads: of the process."""
        while self._ended:
            ended = self._ended.pop(0)
            table.add_host(host_spans(ended.space, threads, ended.begin_ns, ended.channels.__contains__))

    def _gave_way(self, space: bytes) -> None:
        self._keep(space)
        self._changed(False, time.time_ns())

    def _keep(self, space: bytes) -> None:
        if space:
            wanted_s = (time.time_ns() - self._begin_ns) / 1e9 * _SESSION_BYTES / len(space)
            self._wall_s = min(max(wanted_s, _SHORTEST_WALL_S), _LONGEST_SESSION_WALL_S)
            self._ended.append(_Ended(space=space, begin_ns=self._begin_ns, channels=self._channels))
