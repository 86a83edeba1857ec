"""How many programs over several devices XLA:CPU has in flight: few enough that they end.

XLA:CPU has room for 32 programs in flight on a device. A program over several devices is started on each of them by a thread that also runs
what was started there before. While one such thread waits for room, those of the other devices may wait for it in a collective: then
nothing ends, and after a minute XLA aborts the process (jaxlib 0.10.2, under stock JAX as well). So such a program is started only if
the oldest one in flight began few programs ago; those before that depend on nothing that is held up.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Final, final

from tilestep.pjrt import _native

_MOST: Final = 24  # of 32; other threads may start some meanwhile


@final
class InFlight:
    """The programs over several devices that were started last. Safe for use by several threads."""

    def __init__(self) -> None:
        self._begun: deque[tuple[int, Any]] = deque()  # (programs that C had started by then, token)

    def make_room(self) -> None:
        """Waits until another one may be started."""
        while self._begun:
            with contextlib.suppress(IndexError):  # another thread was faster
                number, _ = self._begun[0]
                if _native.launches() - number < _MOST:
                    return
                _, token = self._begun.popleft()
                with contextlib.suppress(Exception):  # who reads the results is told
                    token.block_until_ready()

    def add(self, begun: tuple[int, Any]) -> None:
        """One was started. Args: begun: (what `_native.launches` says, a token of its end)."""
        self._begun.append(begun)
