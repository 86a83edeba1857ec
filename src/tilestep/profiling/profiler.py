"""Sessions of jax.profiler: each gets the emulated timeline of what happens until it ends.

JAX tells every platform of every session (native/profiler.c). A session is nothing but a note where the platform has not started.
"""

import os
import time
from typing import final

from tilestep.hints import WALL_TIME_SESSION
from tilestep.pjrt.running.player import Player
from tilestep.pjrt.running.timeline import current_player, keep_timeline, let_go_of_timeline
from tilestep.protobuf import fields
from tilestep.sim import Mark
from tilestep.views.xspace import SessionTimeline, xspace

_DEVICE_TRACER_LEVEL, _SESSION_ID = 3, 14  # fields of ProfileOptions. Level 0: no timelines of devices


@final
class ProfilerSession:
    """One session. An interrupt may end any of its methods half-way, and then it is called again."""

    def __init__(self, options: bytes) -> None:
        """Args: options: a serialised ProfileOptions."""
        given = dict(fields(options))
        self._is_wanted = given.get(_DEVICE_TRACER_LEVEL, 0) != 0 and given.get(_SESSION_ID) != WALL_TIME_SESSION.encode()
        self._process = os.getpid()
        self._player: Player | None = None
        self._start: Mark | None = None
        self._begin_wall_ns = 0
        self._timeline: SessionTimeline | None = None

    def begin(self) -> None:
        """From now on events are the session's. Waits for programs that count as they run."""
        if not self._is_wanted:
            return
        self._player = current_player()
        if self._player is not None:
            self._start = self._player.mark()
        self._begin_wall_ns = time.time_ns()
        keep_timeline(self)

    def end(self) -> None:
        """Takes the events up to now, if an IPU was used. Waits likewise."""
        player = current_player()
        is_child = os.getpid() != self._process  # a fork has none of the threads that compute what there is to wait for
        try:
            if self._is_wanted and self._timeline is None and player is not None and not is_child:
                self._timeline = self._taken(player)
        finally:
            let_go_of_timeline(self)

    def data(self) -> bytes:
        """A serialised XSpace; b"" if nothing has happened."""
        return b"" if self._timeline is None else xspace(self._timeline)

    def _taken(self, player: Player) -> SessionTimeline:
        end = player.mark()
        start = self._start if self._start is not None and player is self._player else player.origin.mark
        system = player.system
        return SessionTimeline(
            rows=system.rows_between(start, end),
            num_events=end.position - start.position,
            lanes=system.lanes,
            names={key: program.name for key, program in system.programs.items()},
            machine=system.machine,
            begin_cycle=start.host_cycle,
            begin_wall_ns=self._begin_wall_ns,
        )
