"""Finds elements that follow each other in memory that nobody writes to: that memory is a chunk of them, without a copy.

Each array is checked once, when it comes. A dataset that makes an array read-only and later writes to it after all gets wrong elements.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tilestep.train.feeds.elements import ElementSpec
from tilestep.train.feeds.staging import has_layout, is_immutable, owner

Empty = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]


@final
class ContiguousElements:
    """A chunk's elements, as long as each follows the last one in memory. Arrays that never do, such as small labels, are copied.

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
        """Adds an element. Returns: whether at least one of its arrays follows the last element's; if not, it is not added."""
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
        """Whether an array follows the last one in the same memory, or is copied anyway."""
        if first is None:
            return True
        goes_on = array.ctypes.data == begin + self.count * first.nbytes and owner(array) is owner(first)
        return goes_on and has_layout(array, dtype, trusted=self._trusted)

    def _begin(self, arrays: Sequence[NDArray[Any]]) -> None:
        is_used = [is_immutable(array, dtype, trusted=self._trusted) for array, dtype in zip(arrays, self._spec.dtypes, strict=True)]
        self._first = [array if is_so else None for array, is_so in zip(arrays, is_used, strict=True)]
        self._begins = [array.ctypes.data for array in arrays]
        if any(is_used):
            specs = zip(self._spec.shapes, self._spec.dtypes, is_used, strict=True)
            self._copies = [None if is_so else self._rows(shape, dtype) for shape, dtype, is_so in specs]

    def _rows(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._empty((self._capacity, *shape), dtype)

    def arrays(self) -> list[NDArray[Any]]:
        """The chunk's arrays, with elements in their first `count` rows. Those of a full chunk are the dataset's own memory."""
        return [self._array(first) if copies is None else copies for first, copies in zip(self._first, self._copies, strict=True)]

    def _array(self, first: NDArray[Any] | None) -> NDArray[Any]:
        assert first is not None  # an array without copies
        shape, strides = (self.count, *first.shape), (first.nbytes, *first.strides)
        rows = np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
        if self.count == self._capacity:
            return rows
        copy = self._rows(first.shape, first.dtype)
        copy[: self.count] = rows
        return copy
