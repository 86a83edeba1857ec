"""Pauses Python's garbage collector, or lets it look less often. Imports nothing of tilestep."""

import contextlib
import gc
from collections.abc import Iterator
from threading import Lock
from typing import Final

_MANY: Final = 50_000  # objects that stay: the next collections would look at each of them several times
_COLLECTED_EVERY: Final = 100_000  # objects more than before
_pauses = 0
_lock = Lock()


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Nothing looks for cycles among some hundred thousand objects that all stay: half of a plan's time otherwise, and of a pod's replay.

    The collector starts again when the last of several threads is done, unless it was off before the first. If many objects were made
    meanwhile, all count as old then: only a full collection looks at them.
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
                    if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # objects that the program itself has frozen stay so
                        gc.freeze()
                        gc.unfreeze()
                    gc.enable()


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """Python looks for garbage in cycles less often. Replays make many objects of which few are in any, and each look goes through all
    that the user's program has: it took half of the time."""
    before = gc.get_threshold()
    if 0 < before[0] < _COLLECTED_EVERY:
        gc.set_threshold(_COLLECTED_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
