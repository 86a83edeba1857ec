"""What a recording keeps of the host's calls beside their time: the line of the user's code that makes one, and which uploads are alike.

Both are looked for only while a recording keeps the calls.
"""

import itertools
import sys
from ctypes import string_at
from typing import Final, final
from zlib import adler32, crc32

from tilestep.plan.frames import rank_of_file
from tilestep.sim.calls import HostLine

MOST_WHOLE_UPLOAD_BYTES: Final = 2**24  # looking at so many takes ten milliseconds
_BEGIN: Final = 4096  # bytes of an upload that are looked at first
_MOST_DISTINCT_UPLOADS: Final = 2**16
_USER: Final = 2


def current_line() -> HostLine | None:
    """The line of the user's code that is being run in this thread: the innermost one outside of installed packages.

    If all are in installed packages, the innermost one outside of JAX and of this package; None if there is none. Python's own modules
    don't count, because every thread begins in one.
    """
    frame = sys._getframe(1)  # traceback and inspect read whole files
    beside: HostLine | None = None
    while frame is not None:
        code = frame.f_code
        rank = rank_of_file(code.co_filename)
        if rank == _USER:
            return code.co_filename, frame.f_lineno
        if rank and beside is None and "-packages/" in code.co_filename:
            beside = code.co_filename, frame.f_lineno
        frame = frame.f_back
    return beside


@final
class Contents:
    """Numbers the bytes of uploads. An upload's bytes are looked at as a whole only if its first ones have come before."""

    def __init__(self) -> None:
        self._begins: set[tuple[int, int]] = set()
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._next = itertools.count(1)

    def number(self, address: int, size_bytes: int) -> int:
        """A number that is equal for equal bytes from the second upload of them on; 0 if it is unknown.

        Args:
            address: of the bytes, which are dense.
            size_bytes: how many.
        """
        if not 0 < size_bytes <= MOST_WHOLE_UPLOAD_BYTES or len(self._begins) + len(self._numbers) >= _MOST_DISTINCT_UPLOADS:
            return 0
        begin = size_bytes, crc32(string_at(address, min(size_bytes, _BEGIN)))
        if begin not in self._begins:
            self._begins.add(begin)
            return next(self._next)
        whole = string_at(address, size_bytes)
        return self._numbers.setdefault((size_bytes, crc32(whole), adler32(whole)), next(self._next))
