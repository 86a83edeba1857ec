"""How many chunks a loop starts before it waits for the device.

A wait costs the host a wake-up. Without waits, the elements of all started chunks take memory, and a Ctrl-C takes long to show.
"""

from __future__ import annotations

import time
from typing import Final, final

from tilestep.train.feeds.chunks import Chunk
from tilestep.train.loop.program_cache import FIRST_IN_FLIGHT, Loop
from tilestep.train.untyped import jax as _jax

_MOST, _LEAST = 16, 2  # chunks
_TARGET_WALL_S: Final = 0.05  # of work between two waits
_MOST_BYTES: Final = 2**28  # of elements, unless FIRST_IN_FLIGHT chunks have more


@final
class InFlight:
    """The chunks that a loop has started since it last waited for the device.

    Each wait measures how long a chunk takes, and sets `loop.in_flight` so that waits are about `_TARGET_WALL_S` apart.
    """

    __slots__ = ("_count", "_last_wait", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop, self._count = loop, 0
        self._last_wait: float | None = None  # time.perf_counter(), s

    def add(self) -> bool:
        """Counts a chunk that has been started. Returns: whether the loop must wait for the device now."""
        self._count += 1
        return self._count >= self._loop.in_flight

    def waited(self, chunk: Chunk | None) -> None:
        """The device has finished all chunks. Args: chunk: elements of the last one."""
        now = time.perf_counter()
        if self._last_wait is not None:
            most = _MOST
            if chunk is not None:
                size_bytes = sum(leaf.nbytes for leaf in _jax.tree.leaves(chunk.on_device))
                most = min(most, max(FIRST_IN_FLIGHT, _MOST_BYTES // max(1, size_bytes)))
            chunk_wall_s = (now - self._last_wait) / self._count
            self._loop.in_flight = min(most, max(_LEAST, int(_TARGET_WALL_S / chunk_wall_s)))
        self._last_wait, self._count = now, 0
