"""Host memory in which chunks are gathered: aligned, so that a CPU device takes it over without a copy, and used again once nobody has it.

A platform in the host's own memory keeps the very memory that it was given, for as long as any array lives in it. So memory comes back
only when the last array, view or device buffer on top of it has gone, which Python's reference counts say exactly.
"""

import math
import os
import queue
import threading
from collections import deque
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_ALIGNMENT_BYTES: Final = 64  # XLA:CPU takes over host memory as it is only from this alignment on
_POOLED_BYTES: Final = 1 << 16  # fresh memory costs a page fault every 4 KiB; below this size, less than looking for used memory
_MOST_KEPT: Final = 4  # pieces of one size that wait to be used again
SHARED_BYTES: Final = 1 << 21  # copying these takes a third of a millisecond, telling another thread to help a tenth of that
_BLOCK_BYTES: Final = 1 << 20
_PROCESSORS: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


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
class StagingMemory:
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


def frozen(tree: Pytree) -> Pytree:
    """A copy of a data set that an InfeedQueue feeds to a CPU device without copying it again.

    Args:
        tree: a pytree of arrays of any shapes and dtypes, elements or batches along their first axis.

    Returns:
        The same pytree of NumPy arrays that nobody can write to. Each begins at a multiple of 64 bytes, and so does every row if a row's
        size is such a multiple. An infeed of their rows does not copy large ones, with `chunk=1` or in their order.

    Raises:
        TypeError: when a leaf is no array of numbers.
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
        base = base.base
    return made


@final
class _Copy:
    """A large copy, block by block, by any number of threads: each block goes to one of them, however late others get a processor."""

    def __init__(self, target: NDArray[Any], source: NDArray[Any]) -> None:
        self._target, self._source = target.reshape(-1), source.reshape(-1)
        self._length = _BLOCK_BYTES // target.itemsize
        self._blocks = iter(range(0, self._target.size, self._length))
        self._over = threading.Event()
        self._is_helped = False
        self._error: BaseException | None = None

    def help(self) -> None:
        """Copies what is left of it. Called by the helper."""
        self._is_helped = True  # before it takes a block
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def copy(self) -> None:
        """Copies what is left of it, and waits for the helper, if that has begun. Raises: what the copying raises."""
        try:
            self._work()
        finally:
            for _ in self._blocks:  # none is left, for a helper that comes later
                pass
            if self._is_helped:
                self._over.wait()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        for begin in self._blocks:
            self._target[begin : begin + self._length] = self._source[begin : begin + self._length]


@final
class Copier:
    """Copies arrays, large ones with the help of a thread: one processor alone does not use all of the memory's bandwidth."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Copy | None] | None = None

    def copy(self, target: NDArray[Any], source: NDArray[Any]) -> None:
        """`target[...] = source`, of the same shape, by one thread at a time."""
        if target.nbytes < SHARED_BYTES or not (target.flags.c_contiguous and source.flags.c_contiguous) or _PROCESSORS == 1:
            target[...] = source
            return
        if self._work is None:
            self._work = queue.SimpleQueue()
            threading.Thread(target=_help, args=(self._work,), name="tilestep-infeed-copy", daemon=True).start()
        copy = _Copy(target, source)
        self._work.put(copy)
        copy.copy()

    def close(self) -> None:
        """Ends the helper."""
        if self._work is not None:
            self._work.put(None)
            self._work = None


def _help(work: queue.SimpleQueue[_Copy | None]) -> None:
    while (copy := work.get()) is not None:
        copy.help()
        del copy  # it holds arrays


def is_immutable(array: NDArray[Any], dtype: np.dtype[Any], *, trusted: bool) -> bool:
    """Whether a chunk can use an array as it is: of this dtype, aligned, dense, and nobody writes to it.

    Nobody writes to it if it is `trusted`, or its memory is read-only as far down as NumPy knows. False for small arrays, because copying
    them costs less than the check.
    """
    return array.nbytes >= _POOLED_BYTES and has_layout(array, dtype, trusted=trusted) and array.ctypes.data % _ALIGNMENT_BYTES == 0


def has_layout(array: NDArray[Any], dtype: np.dtype[Any], *, trusted: bool) -> bool:
    """Whether an array is dense, of this dtype, and nobody writes to it: `is_immutable` but for size and alignment."""
    return array.dtype == dtype and array.flags.c_contiguous and (trusted or _is_read_only(array))


def owner(array: NDArray[Any]) -> object:
    """The object that owns an array's memory."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


def _is_read_only(array: NDArray[Any]) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return not isinstance(base, memoryview) or base.readonly


def _aligned(size: int) -> NDArray[np.uint8]:
    raw = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT_BYTES
    return raw[start : start + size]
