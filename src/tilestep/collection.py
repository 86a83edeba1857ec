"""Pauses Python's garbage collector. Imports nothing of tilestep."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from threading import Lock

_pauses = 0
_lock = Lock()


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Nothing looks for cycles among some hundred thousand objects that all stay: half of a plan's time otherwise, and of a pod's replay.

    The collector starts again when the last of several threads is done, unless it was off before the first.
    """
    global _pauses
    with _lock:
        pausing = gc.isenabled() or _pauses > 0
        if pausing:
            _pauses += 1
            gc.disable()
    try:
        yield
    finally:
        if pausing:
            with _lock:
                _pauses -= 1
                if not _pauses:
                    gc.enable()
