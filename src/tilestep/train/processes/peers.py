"""Says on stderr which other process is held up, and by what: its dataset, say. All that this one knows is that a collective does not end.

Each process tells the others by JAX's store of keys and values, which is with JAX's coordinator. So nobody listens for it.
"""

import atexit
import json
import os
import socket
import sys
import threading
from typing import Final, final

from tilestep.messages import shortened
from tilestep.train.jax_private import distributed
from tilestep.train.patience import longest_wait

HELD_UP_WALL_S: Final = 20.0  # after which others hear of it, if that is not more than a third of the time-out
_LOOKS: Final = 4  # in that time
_END_WALL_S: Final = 5.0  # for the look that is under way at the program's end
KEY: Final = "tilestep/held_up/"
_MOST_CHARACTERS: Final = 200


@final
class Peers:
    """What this process tells the others, and hears from them.

    Args: me, count: this process's number, and how many there are. held_up_wall_s: how long one waits before the others are told.
    """

    def __init__(self, me: int, count: int, held_up_wall_s: float) -> None:
        self._me, self._count, self._held_up_wall_s = me, count, held_up_wall_s
        self._told: set[tuple[int, float]] = set()  # the waits of other processes that were said
        self._is_known = False  # whether the others know that this one is held up

    def say(self, wait: tuple[str, float, float] | None) -> tuple[str, str] | None:
        """The key and value that the others are to know; None: nothing new. Args: wait: see `longest_wait`."""
        was_known, self._is_known = self._is_known, wait is not None and wait[2] >= self._held_up_wall_s
        said = [*(wait or ()), os.getpid(), socket.gethostname()] if self._is_known else []
        return (f"{KEY}{self._me}", json.dumps(said)) if self._is_known or was_known else None

    def heard(self, published: list[tuple[str, str]]) -> list[str]:
        """What is new of the others, a line for each. Args: published: all keys and values that processes have said."""
        return [line for key, value in published if (line := self._line(key, value))]

    def _line(self, key: str, value: str) -> str | None:
        try:
            process, (what, since, wall_s, pid, host) = int(key.removeprefix(KEY)), json.loads(value)
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
                if (said := peers.say(longest_wait())) is not None:
                    distributed.publish(*said)
                lines = peers.heard(distributed.published(KEY))
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
