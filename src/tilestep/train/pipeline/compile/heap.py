"""Cleans the host's memory after compiling: returns free pages to the system, and keeps small free pieces out of use.

Compiling takes memory in many threads at a time. With glibc each of them frees it into an arena of its own, where it stays with the
process: other threads, such as those that run programs afterwards, take new memory from the system instead.

Thousands of small free pieces stay in the arena of the thread that has traced, far from each other. glibc reuses the oldest piece of a
size first, which is no longer cached. A host that starts program after program goes through all of them. Without such pieces glibc cuts
memory from a large one, and soon gives the same memory again.
"""

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

_LARGEST: Final = 1000  # bytes of what malloc takes from lists of one size: chunks below 1024 bytes
_STEP: Final = 16  # bytes from one such size to the next
_HEADER: Final = 8  # bytes of a chunk that its user does not get
MOST_BYTES: Final = 32 * 2**20  # in all chunks; compiling leaves one or two million


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None without glibc, where something else decides by itself."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library without a name
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


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
    """Takes the small free pieces in the arena of the thread that calls: after compiling up to 2 MB, in some milliseconds.

    Neighbours among them are one piece, but for those that were freed last. So what comes in a row, each behind the one before, is
    cut from a larger piece: of this size none is left. It begins with the largest, since what is used up is cut from larger ones.

    Returns: None if they are more than 32 MiB, and nothing is held; where memory comes from something else than glibc's malloc.
    Source: glibc 2.36's malloc.c: small bins of chunks below 1024 bytes, 16 bytes apart, first in first out; free chunks are coalesced,
        those of a thread's cache and of fast bins later.
    """
    functions = _functions()
    if functions is None:
        return None
    malloc, free = functions
    addresses: list[int] = []
    left = MOST_BYTES
    for size in range(_LARGEST, _STEP, -_STEP):
        row, last = 0, 0
        while row < 2:
            address = malloc(size)
            left -= size
            if address is None or left < 0:  # None: there is no more memory
                _free(addresses if address is None else [*addresses, address], free)
                return None
            addresses.append(address)
            row = row + 1 if address - last == size + _HEADER else 0
            last = address
    return Pieces(addresses, free)


@functools.cache
def _functions() -> tuple[Callable[[int], int | None], Callable[[int], None]] | None:
    """glibc's `malloc` and `free`, called without giving up the interpreter's lock; None where the process has others."""
    try:
        own, glibc = ctypes.PyDLL(None), ctypes.PyDLL("libc.so.6")
    except (OSError, TypeError):
        return None
    if _trim() is None or _address(own.malloc) != _address(glibc.malloc):
        return None
    own.malloc.restype, own.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    own.free.restype, own.free.argtypes = None, [ctypes.c_void_p]
    return own.malloc, own.free


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _free(addresses: Sequence[int], free: Callable[[int], None]) -> None:
    for address in addresses:
        free(address)
