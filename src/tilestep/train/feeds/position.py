"""How far a pass over a dataset has come, how to come back there, and the elements in the host's memory that come before the next one."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from tilestep.train.feeds.chunks import Arrays, Filling
from tilestep.train.feeds.passes import Start
from tilestep.train.untyped import Pytree


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


@final
class Position:
    """Counts a pass's elements, from the dataset's first one on. The feeder's lock guards it.

    Attributes:
        pulled: elements that have come from the dataset.
        consumed: elements that loops have used.
        final: elements that loops have used and cannot give back.
    """

    def __init__(self, start: Start) -> None:
        self.pulled = self.consumed = self.final = start.elements
        self._start = start
        self._states: deque[tuple[int, Pytree]] = deque()  # (elements pulled, the iterator's state then)

    @property
    def available(self) -> int:
        """Elements that have come from the dataset and have not been used."""
        return self.pulled - self.consumed

    def add_state(self, state: Pytree) -> None:
        """Notes the state of the dataset's iterator before its next element."""
        self._forget_states(self.final)
        self._states.append((self.pulled, state))

    def next_start(self) -> Start:
        """The start of a pass that goes on after the last element used."""
        self._forget_states(self.consumed)
        if self._states:
            pulled, state = self._states[0]
            return Start(elements=self.consumed, skip=self.consumed - pulled, dataset_state=state)
        start = self._start
        return Start(elements=self.consumed, skip=self.consumed - start.elements + start.skip, dataset_state=start.dataset_state)

    def _forget_states(self, used: int) -> None:
        """Drops states that are not needed to reach an element after the first `used` ones."""
        while len(self._states) > 1 and self._states[1][0] <= used:
            self._states.popleft()
