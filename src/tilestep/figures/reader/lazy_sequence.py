"""Sequences whose items are made when they are asked for."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final, overload

T = TypeVar("T")


@final
class LazySequence(Sequence[T], Generic[T]):
    """A sequence of a known length.

    Args:
        length: of it.
        make: the item of an index from 0.
    """

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self._range, self._make = range(length), make

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._make(each) for each in self._range[index]]
        return self._make(self._range[index])

    def __repr__(self) -> str:
        return f"<{len(self):,} items>"
