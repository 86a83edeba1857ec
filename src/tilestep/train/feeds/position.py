"""How far a pass over a dataset has come: elements taken from the dataset, elements that loops have used, and how to come back there."""

from __future__ import annotations

from collections import deque
from typing import final

from tilestep.train.feeds.passes import Start
from tilestep.train.untyped import Pytree


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
