"""Replays without most of the garbage collector's work."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

_COLLECTED_EVERY: Final = 100_000  # objects more than before


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
