"""Elements that lie one after the other in memory that nobody writes to: the memory of a chunk of them, without a copy.

That is asked of each array, as it comes: whoever makes an array read-only and later writes to it after all has promised too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tilestep.train.feeds.elements import ElementSpec
from tilestep.train.feeds.staging import is_settled, lies, owner

Empty = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]


@final
class Run:
    """A chunk's elements as long as their arrays lie so. Arrays that never do, such as small labels beside images, are copied.

    Args:
        spec: of the elements.
        capacity: elements of the chunk.
        empty: makes memory.
        trusted: whether nobody writes to any of the arrays.
    """

    def __init__(self, spec: ElementSpec, capacity: int, empty: Empty, *, trusted: bool) -> None:
        self._spec, self._capacity, self._empty, self._trusted = spec, capacity, empty, trusted
        self._first: list[NDArray[Any] | None] = []  # None: copied
        self._begins: list[int] = []  # addresses
        self._copies: list[NDArray[Any] | None] = []
        self.count = 0

    def add(self, arrays: Sequence[NDArray[Any]]) -> bool:
        """One more element. Returns: whether it goes on where the last one ended, with one array at least; else it is not taken."""
        if not self.count:
            self._begin(arrays)
        elif not all(map(self._follows, arrays, self._first, self._begins, self._spec.dtypes)):
            return False
        if all(first is None for first in self._first):
            return False
        for array, copies in zip(arrays, self._copies, strict=True):
            if copies is not None:
                copies[self.count] = array
        self.count += 1
        return True

    def _follows(self, array: NDArray[Any], first: NDArray[Any] | None, begin: int, dtype: np.dtype[Any]) -> bool:
        """Whether an array lies where its run goes on, in the same memory; one that is copied does."""
        if first is None:
            return True
        goes_on = array.ctypes.data == begin + self.count * first.nbytes and owner(array) is owner(first)
        return goes_on and lies(array, dtype, trusted=self._trusted)

    def _begin(self, arrays: Sequence[NDArray[Any]]) -> None:
        settled = [is_settled(array, dtype, trusted=self._trusted) for array, dtype in zip(arrays, self._spec.dtypes, strict=True)]
        self._first = [array if is_so else None for array, is_so in zip(arrays, settled, strict=True)]
        self._begins = [array.ctypes.data for array in arrays]
        if any(settled):
            kinds = zip(self._spec.shapes, self._spec.dtypes, settled, strict=True)
            self._copies = [None if is_so else self._rows(shape, dtype) for shape, dtype, is_so in kinds]

    def _rows(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._empty((self._capacity, *shape), dtype)

    def arrays(self) -> list[NDArray[Any]]:
        """The chunk's, whose first `count` rows are there; of a chunk that is full, arrays where they lay."""
        return [self._array(first) if copies is None else copies for first, copies in zip(self._first, self._copies, strict=True)]

    def _array(self, first: NDArray[Any] | None) -> NDArray[Any]:
        assert first is not None  # what is not copied lies somewhere
        shape, strides = (self.count, *first.shape), (first.nbytes, *first.strides)
        there = np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
        if self.count == self._capacity:
            return there
        made = self._rows(first.shape, first.dtype)
        made[: self.count] = there
        return made
