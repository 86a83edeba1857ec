"""Says on stderr which other process is held up, and by what: its dataset, say. All that this one knows is that a collective does not end.

Each process tells the others by JAX's store of keys and values, which is with JAX's coordinator. So nobody listens for it.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Final, final

from tilestep.messages import shortened
from tilestep.train.jax_private import distributed
from tilestep.train.patience import longest_wait

HELD_UP_WALL_S: Final = 20.0  # after which others hear of it, if that is not more than a third of the time-out
_LOOKS: Final = 4  # in that time
_END_WALL_S: Final = 5.0  # for the look that is under way at the program's end
_KEY: Final = "tilestep/held_up/"
_MOST_CHARACTERS: Final = 200


@final
class Peers:
    """What this process tells the others, and hears from them.

    Args:
        me, count: this process's number, and how many there are.
        held_up_wall_s: how long a process waits before the others are told.
        publish: gives all processes a value under a key.
        published: all keys that begin so, with their values.
        wait: the longest wait of a loop of this process: (for what, since when by its own clock, seconds); None: there is none.
    """

    def __init__(
        self,
        me: int,
        count: int,
        held_up_wall_s: float,
        *,
        publish: Callable[[str, str], None] = distributed.publish,
        published: Callable[[str], list[tuple[str, str]]] = distributed.published,
        wait: Callable[[], tuple[str, float, float] | None] = longest_wait,
    ) -> None:
        self._me, self._count, self._held_up_wall_s = me, count, held_up_wall_s
        self._publish, self._published, self._wait = publish, published, wait
        self._told: set[tuple[int, float]] = set()  # the waits of other processes that were said
        self._is_known = False  # whether the others know that this one is held up

    def look(self) -> list[str]:
        """Tells the others whether this process is held up. Returns: what is new of them, a line for each."""
        wait = self._wait()
        is_held_up = wait is not None and wait[2] >= self._held_up_wall_s
        if is_held_up or self._is_known:
            said = [*wait, os.getpid(), socket.gethostname()] if wait is not None and is_held_up else []
            self._publish(f"{_KEY}{self._me}", json.dumps(said))
            self._is_known = is_held_up
        return [line for key, value in self._published(_KEY) if (line := self._line(key, value))]

    def _line(self, key: str, value: str) -> str | None:
        try:
            process, (what, since, wall_s, pid, host) = int(key.removeprefix(_KEY)), json.loads(value)
            number = process, float(since)
            line = f"process {process} of {self._count} (pid {int(pid)} on {host}) has waited {float(wall_s):.0f} s for {what}"
        except (TypeError, ValueError, OverflowError, RecursionError):  # it goes on, or is something else
            return None
        if process == self._me or number in self._told:
            return None
        self._told.add(number)
        return shortened(line, _MOST_CHARACTERS)


def watch_peers(me: int, count: int, timeout_s: float) -> None:
    """Looks again and again, in a thread that ends before JAX's client does: a call of that may take as long as the network."""
    held_up_wall_s = min(HELD_UP_WALL_S, timeout_s / 3)
    peers, is_over = Peers(me, count, held_up_wall_s), threading.Event()

    def look() -> None:
        while not is_over.wait(held_up_wall_s / _LOOKS):
            try:
                lines = peers.look()
            except RuntimeError:  # JAX's coordinator is gone: the watchdog says why
                return
            for line in lines:
                print(f"tilestep: {line}", file=sys.stderr, flush=True)

    thread = threading.Thread(target=look, name="tilestep-peers", daemon=True)

    def end() -> None:
        is_over.set()
        thread.join(_END_WALL_S)

    thread.start()
    atexit.register(end)
