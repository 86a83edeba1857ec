"""Keeps few programs over several devices in flight, because XLA:CPU deadlocks with many.

XLA:CPU has room for 32 programs in flight on a device. It starts a program over several devices by one thread for each device. When one
of these threads waits for room, the others wait for it in a collective. Nothing ends then: after a minute XLA aborts the process
(jaxlib 0.10.2, under stock JAX as well). Programs on one device end by themselves.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any, Final, final

_MOST_IN_FLIGHT: Final = 8  # of XLA's 32, because each thread that starts programs may go one beyond


@final
class InFlight:
    """The programs over several devices that were started last. Safe for use by several threads.

    Attributes: add: notes that a program was started, by the token of its end. It runs no bytecode, so no interrupt can come before it.
    """

    def __init__(self) -> None:
        self._tokens: deque[Any] = deque()
        self._lock = threading.Lock()
        self.add = self._tokens.append

    def make_room(self) -> None:
        """Waits until another program may be started."""
        while len(self._tokens) >= _MOST_IN_FLIGHT:
            with contextlib.suppress(IndexError):  # another thread was faster
                token = self._tokens[0]
                with contextlib.suppress(Exception):  # reading the results says what failed
                    token.block_until_ready()
                with self._lock:
                    if self._tokens[0] is token:
                        self._tokens.popleft()
