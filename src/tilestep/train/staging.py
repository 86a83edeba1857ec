"""Host memory in which chunks are gathered: aligned, so that a CPU device takes it over without a copy, and used again once nobody has it.

A platform in the host's own memory keeps the very memory that it was given, for as long as any array lives in it. So memory comes back
only when the last array, view or device buffer on top of it has gone, which Python's reference counts say exactly.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, final

import jax
import numpy as np
from numpy.typing import NDArray

_ALIGNMENT_BYTES: Final = 64  # XLA:CPU takes over host memory as it is only from this alignment on
_POOLED_BYTES: Final = 1 << 16  # fresh memory costs a page fault every 4 KiB; below this size, less than looking for used memory
_MOST_KEPT: Final = 4  # pieces of one size that wait to be used again
SHARED_BYTES: Final = 1 << 21  # copying these takes a third of a millisecond, telling another thread to help a tenth of that
_BLOCK_BYTES: Final = 1 << 20

_jax: Any = jax  # whose types say nothing of what is in a tree


@final
class _Lent:
    """Some memory, as NumPy's array interface shows it; every array on it keeps this object, whose end gives the memory back."""

    __slots__ = ("__array_interface__", "_home", "_raw")

    def __init__(self, raw: NDArray[np.uint8], shape: tuple[int, ...], home: deque[NDArray[np.uint8]]) -> None:
        self._raw, self._home = raw, home
        self.__array_interface__ = {"shape": shape, "typestr": "|u1", "data": (raw.ctypes.data, False), "version": 3}

    def __del__(self) -> None:
        self._home.append(self._raw)  # a deque that is full drops the oldest


@final
class Staging:
    """Makes arrays in host memory. Safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._homes: dict[int, deque[NDArray[np.uint8]]] = {}  # by size

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A C-contiguous aligned array whose values are anything."""
        size = math.prod(shape) * dtype.itemsize
        if size < _POOLED_BYTES:
            raw = _aligned(size)
        else:
            with self._lock:
                home = self._homes.setdefault(size, deque(maxlen=_MOST_KEPT))
            try:
                memory = home.pop()  # the latest is the likeliest to be in the cache
            except IndexError:
                memory = _aligned(size)
            raw = np.asarray(_Lent(memory, (size,), home))
        return raw.view(dtype).reshape(shape)


def frozen(tree: Any) -> Any:
    """A copy of a data set that an InfeedQueue feeds to a CPU device without copying it again.

    Args: tree: a pytree of arrays of any shapes and dtypes, elements or batches along their first axis.
    Returns: the same of NumPy arrays that nobody can write to. Each begins at a multiple of 64 bytes, and so does every row if a row's size
        is such a multiple. An infeed of their rows hands these on as they are, if they are large: with `chunk=1`, or in their order.
    Raises: TypeError for what is no array.
    """
    return _jax.tree.map(_frozen, tree)


def _frozen(array: Any) -> NDArray[Any]:
    found = np.asarray(array)
    if found.dtype.hasobject:
        raise TypeError(f"{type(array).__name__} is no array of numbers: frozen() copies arrays")
    raw = _aligned(found.nbytes)
    made = raw.view(found.dtype).reshape(found.shape)
    made[...] = found
    base: Any = made
    while isinstance(base, np.ndarray):
        base.flags.writeable = False
        base = base.base  # pyright: ignore[reportUnknownMemberType]
    return made


@final
class Copier:
    """Copies arrays, large ones with the help of a thread: one processor alone does not use all of the memory's bandwidth."""

    def __init__(self) -> None:
        self._helper: ThreadPoolExecutor | None = None

    def copy(self, target: NDArray[Any], source: NDArray[Any]) -> None:
        """`target[...] = source`, of the same shape, by one thread at a time."""
        if target.nbytes < SHARED_BYTES or not (target.flags.c_contiguous and source.flags.c_contiguous) or (os.cpu_count() or 1) == 1:
            target[...] = source
            return
        if self._helper is None:
            self._helper = ThreadPoolExecutor(1, "tilestep-infeed-copy")
        to, given = target.reshape(-1), source.reshape(-1)
        length = _BLOCK_BYTES // target.itemsize
        blocks = iter(range(0, to.size, length))

        def work() -> None:
            for begin in blocks:  # each goes to one of the two, however late the helper gets a processor
                to[begin : begin + length] = given[begin : begin + length]

        other = self._helper.submit(work)
        work()
        if not other.cancel():
            other.result()

    def close(self) -> None:
        """Ends the helper."""
        if self._helper is not None:
            self._helper.shutdown(wait=False)
            self._helper = None


def is_settled(array: NDArray[Any], dtype: np.dtype[Any], *, trusted: bool) -> bool:
    """Whether an array will do as it is, of that dtype: aligned, dense, and nobody writes to it.

    The latter is so if it is `trusted`, or its memory is read-only as far down as NumPy knows. Small arrays never do: copying them costs
    less than the question.
    """
    if array.nbytes < _POOLED_BYTES or array.dtype != dtype or not array.flags.c_contiguous:
        return False
    return (trusted or _is_read_only(array)) and array.ctypes.data % _ALIGNMENT_BYTES == 0


def owner(array: NDArray[Any]) -> object:
    """Whose memory an array is on."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:  # pyright: ignore[reportUnknownMemberType]
        found = found.base  # pyright: ignore[reportUnknownMemberType]
    return found


def _is_read_only(array: NDArray[Any]) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base  # pyright: ignore[reportUnknownMemberType]
    return not isinstance(base, memoryview) or base.readonly


def _aligned(size: int) -> NDArray[np.uint8]:
    raw = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT_BYTES
    return raw[start : start + size]
