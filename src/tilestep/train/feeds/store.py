"""Elements in the host's memory that come before the dataset's next element: what loops have given back, or have not taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from tilestep.train.feeds.chunks import Arrays, Filling


@final
class Store:
    """A queue of elements, as pieces: lists of arrays with elements along their first axis. The feeder's lock guards it.

    Attributes: count: elements in it.
    """

    def __init__(self) -> None:
        self._pieces: deque[Arrays] = deque()
        self.count = 0

    def put_first(self, pieces: Sequence[Arrays]) -> None:
        """Puts pieces, in their order, before all others."""
        self._pieces.extendleft(reversed(pieces))
        self.count += sum(len(piece[0]) for piece in pieces)

    def put_last(self, piece: Arrays) -> None:
        """Puts a piece after all others."""
        self._pieces.append(piece)
        self.count += len(piece[0])

    def fill(self, filling: Filling, empty: Callable[[int], Arrays]) -> None:
        """Moves elements to a chunk until it is full, or none is left. Args: empty: makes arrays for so many elements."""
        while self._pieces and filling.count < filling.capacity:
            piece = self._pieces.popleft()
            length = len(piece[0])
            count = min(length, filling.capacity - filling.count)
            if count == filling.capacity == length:
                filling.arrays = piece
            else:
                if not filling.arrays:
                    filling.arrays = empty(filling.capacity)
                for target, array in zip(filling.arrays, piece, strict=True):
                    target[filling.count : filling.count + count] = array[:count]
                if count < length:
                    self._pieces.appendleft([array[count:] for array in piece])
            self.count -= count
            filling.count += count
