"""Recordings that are under way."""

import contextlib
from collections.abc import Callable, Iterator

from tilestep.pjrt.running.player import Begin
from tilestep.pjrt.running.timeline import current_player, keep_timeline, let_go_of_timeline
from tilestep.profiling.measurement import Measurement, measured, measurement_of
from tilestep.settings import read_settings
from tilestep.sim import System


@contextlib.contextmanager
def recording(*, links: bool = False) -> Iterator[Callable[[], Measurement]]:
    """Keeps the timeline inside the block; yields a function that measures what happened from the block's begin to now.

    The platform need not have started: then the profile begins when it starts, and is empty if it never does.

    Args: links: as for `keep_timeline`.
    """
    player_before = current_player()
    start = None if player_before is None else player_before.begin()
    holder = object()
    keep_timeline(holder, links=links)

    def measure() -> Measurement:
        player = current_player()
        if player is None:
            settings = read_settings()
            idle = System(settings.machine, record=False)
            return measurement_of(idle, Begin(idle.mark(), None), idle.mark(), settings.engine, {})
        return measured(player, start if start is not None and player is player_before else player.origin)

    try:
        yield measure
    finally:
        let_go_of_timeline(holder)
