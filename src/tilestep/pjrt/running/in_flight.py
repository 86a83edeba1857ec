"""How many programs over several devices XLA:CPU has in flight: few enough that they end.

XLA:CPU has room for 32 programs in flight on a device. A program over several devices is started on each of them by a thread of its own;
where one of these threads waits for room, the others wait for it in a collective, and nothing ends: after a minute XLA aborts the process
(jaxlib 0.10.2, under stock JAX as well). Programs on one device end by themselves.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any, Final, final

_MOST: Final = 8  # of 32: each thread that starts programs may be one beyond


@final
class InFlight:
    """The programs over several devices that were started last. Safe for use by several threads.

    Attributes: add: notes that one was started, by a token of its end. It runs no bytecode, before which an interrupt might come.
    """

    def __init__(self) -> None:
        self._tokens: deque[Any] = deque()
        self._lock = threading.Lock()
        self.add = self._tokens.append

    def make_room(self) -> None:
        """Waits until another one may be started."""
        while len(self._tokens) >= _MOST:
            with contextlib.suppress(IndexError):  # another thread was faster
                token = self._tokens[0]
                with contextlib.suppress(Exception):  # who reads the results is told
                    token.block_until_ready()
                with self._lock:
                    if self._tokens[0] is token:
                        self._tokens.popleft()
