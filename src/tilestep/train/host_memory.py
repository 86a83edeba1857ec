"""What compiling leaves of the host's memory: pages go back to the system, small pieces are kept out of use.

Compiling takes memory in many threads at a time. With glibc each of them frees it into an arena of its own, where it stays with the
process: other threads, such as those that run programs afterwards, take new memory from the system instead.

In the arena of the thread that has traced, thousands of small pieces are left, far from each other. glibc gives out the pieces of a size
oldest first. A host that then starts program after program goes through all of them, and finds none in its caches. Where it has no
such pieces, it cuts what it needs from a large one, and soon gets the same memory again.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

_LARGEST: Final = 1000  # bytes of what malloc takes from lists of one size: chunks below 1024 bytes
_STEP: Final = 16  # bytes from one such size to the next
_HEADER: Final = 8  # bytes of a chunk that its user does not get
_MOST_BYTES: Final = 8 * 2**20  # held in one go


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


@final
class Pieces:
    """Small pieces of memory that nobody uses, free again when this is no longer referred to.

    Attributes: count: how many.
    """

    def __init__(self, addresses: Sequence[int], free: Callable[[int], None]) -> None:
        self.count: Final = len(addresses)
        at_end: Any = weakref.finalize(self, _free, addresses, free)
        at_end.atexit = False  # when the whole process ends, so does its heap


def hold_pieces() -> Pieces | None:
    """Takes the small free pieces in the arena of the thread that calls: 1 to 2 MB after compiling, in some milliseconds.

    Free pieces that are neighbours are made one. So what comes in a row, each behind the one before, is cut from a larger piece: of
    this size none is left. It begins with the largest, since pieces of a size that is used up are cut from larger ones.

    Returns: None without glibc.
    Source: glibc 2.36's malloc.c: small bins of chunks below 1024 bytes, 16 bytes apart, first in first out; free chunks are coalesced.
    """
    if _trim() is None:
        return None
    malloc, free = _functions()
    addresses: list[int] = []
    left = _MOST_BYTES
    for size in range(_LARGEST, _STEP, -_STEP):
        row, last = 0, 0
        while row < 2 and left > 0:
            address = malloc(size)
            if address is None:
                return Pieces(addresses, free)
            addresses.append(address)
            left -= size
            row = row + 1 if address - last == size + _HEADER else 0
            last = address
    return Pieces(addresses, free)


@functools.cache
def _functions() -> Any:
    """`malloc` and `free`, called without giving up the interpreter's lock: they take less than that does."""
    library = ctypes.PyDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    return library.malloc, library.free


def _free(addresses: Sequence[int], free: Callable[[int], None]) -> None:
    for address in addresses:
        free(address)
