"""Giving back to the system what this process no longer uses of the host's memory.

Compiling takes memory in many threads at a time. With glibc each of them frees it into an arena of its own, where it stays with the
process: other threads, such as those that run programs afterwards, take new memory from the system instead.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None where memory is managed by something else, which decides by itself."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library without a name
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim  # pyright: ignore[reportReturnType]


def give_back() -> bool:
    """Returns to the system the pages that are free in this process's heap. It takes some milliseconds.

    Returns: whether there were any; False, too, without glibc.
    Source: glibc manual, malloc_trim(3): since 2.8 it frees whole pages in all arenas.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))
