"""Gathers a dataset's elements in the memory of a chunk: copied, or where they are if they have the chunk's layout."""

import threading
from collections.abc import Iterator
from typing import Final, final

from tilestep.train.datasets import knows_its_place, place_of
from tilestep.train.feeds.chunks import Arrays, Filling
from tilestep.train.feeds.contiguous import ContiguousElements
from tilestep.train.feeds.elements import ElementSpec, GatherOutcome
from tilestep.train.feeds.passes import DatasetPass
from tilestep.train.feeds.position import Position, Store
from tilestep.train.feeds.staging import Copier, StagingMemory, is_immutable
from tilestep.train.untyped import Pytree

_GATHER_WALL_S: Final = 0.5e-3  # after which others may take what has come from a dataset meanwhile


@final
class Gatherer:
    """Takes elements from a pass over a dataset into chunks.

    Args:
        source: the pass, which one thread uses.
        position: counts the pass's elements.
        store: gets elements whose chunk has been taken back meanwhile.
        lock: guards the position, the store and the chunks.
        staging: makes the memory of chunks.
        copy: whether the dataset may write to arrays that it has given.
    Attributes:
        spec: of the elements; None before the first one.
    """

    def __init__(
        self,
        source: DatasetPass,
        position: Position,
        store: Store,
        *,
        lock: threading.Condition,
        staging: StagingMemory,
        copy: bool,
    ) -> None:
        self.spec: ElementSpec | None = None
        self._pass, self._position, self._store = source, position, store
        self._lock = lock
        self._staging, self._is_trusted = staging, not copy
        self._copier = Copier()
        self._may_adjoin = True  # whether a chunk's first element may be followed by the others in memory

    def open(self) -> Copier:
        """A thread begins to gather. Returns: what it closes at its end."""
        self._copier = Copier()
        return self._copier

    def empty(self, count: int) -> Arrays:
        """Arrays for so many elements, with any values."""
        spec = self.spec
        assert spec is not None  # there was an element
        return [self._staging.empty((count, *shape), dtype) for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True)]

    def gather(self, filling: Filling) -> None:
        """Gathers elements until the chunk is full or has been taken back.

        Raises: StopIteration if the dataset is over. What the dataset raises.
        """
        iterator = self._pass.iterator()
        if self._pass.in_hand:
            if not filling.is_wanted:
                return
            self._add(self._pass.in_hand[0], filling)
        if knows_its_place(iterator):
            state = place_of(iterator)
            with self._lock:
                self._position.add_state(state)
        while filling.count < filling.capacity and filling.is_wanted:
            if filling.capacity > 1 and not filling.count and self._may_adjoin and self.spec is not None:
                self._add_adjoining(iterator, filling, self.spec)
            elif filling.capacity > 1 and self.spec is not None and self.spec.gathers:
                self._add_many(iterator, filling, self.spec)
            else:
                self._add(next(iterator), filling)

    def _add(self, element: Pytree, filling: Filling) -> None:
        """Adds an element. It is copied before the dataset makes another one, which may reuse its memory.

        An element that is a chunk by itself is not copied if nobody writes to its memory and the device can take that over.
        """
        self._pass.in_hand = [element]
        spec = self.spec
        if spec is None:
            spec = self.spec = ElementSpec(element, self._position.pulled, x64=filling.plan.x64)
        arrays = spec.arrays(element, self._position.pulled)
        if filling.capacity == 1 and all(
            is_immutable(array, dtype, trusted=self._is_trusted) for array, dtype in zip(arrays, spec.dtypes, strict=True)
        ):
            filling.arrays = [array[None] for array in arrays]
            self._count(filling, 1)
        else:
            self._copy(filling, arrays)

    def _add_adjoining(self, iterator: Iterator[Pytree], filling: Filling, spec: ElementSpec) -> None:
        """Adds elements as long as they follow each other in memory that nobody writes to, and copies the first one that does not."""
        run = filling.run = ContiguousElements(spec, filling.capacity, self._staging.empty, trusted=self._is_trusted)
        try:
            while run.count < filling.capacity and filling.is_wanted:
                self._pass.in_hand = [next(iterator)]
                arrays = spec.arrays(self._pass.in_hand[0], self._position.pulled)
                with self._lock:
                    is_wanted = filling.is_wanted  # it may have been taken back meanwhile
                    if is_wanted and run.add(arrays):
                        self._position.pulled += 1
                        filling.count += 1
                        self._pass.in_hand = []
                        continue
                    filling.materialize()
                if is_wanted and not run.count:
                    self._may_adjoin = False
                self._copy(filling, arrays)
                return
        finally:
            with self._lock:
                filling.materialize()

    def _copy(self, filling: Filling, arrays: Arrays) -> None:
        if not filling.arrays:
            filling.arrays = self.empty(filling.capacity)
        for target, array in zip(filling.arrays, arrays, strict=True):
            self._copier.copy(target[filling.count, ...], array)
        self._count(filling, 1)

    def _add_many(self, iterator: Iterator[Pytree], filling: Filling, spec: ElementSpec) -> None:
        """Adds the elements that come within `_GATHER_WALL_S`. `_add` takes one that the compiled loop cannot copy."""
        if not filling.arrays:
            filling.arrays = self.empty(filling.capacity)
        count, outcome, value = spec.gather(iterator, filling.arrays, filling.count, filling.capacity, _GATHER_WALL_S)
        self._count(filling, count)
        if outcome is GatherOutcome.ODD:
            self._add(value, filling)
        elif outcome is GatherOutcome.RAISED:
            raise value
        elif outcome is GatherOutcome.OVER:
            raise StopIteration

    def _count(self, filling: Filling, count: int) -> None:
        """The dataset's next `count` elements have been copied to the rows after those that are there."""
        with self._lock:
            self._position.pulled += count
            self._pass.in_hand = []
            if filling.is_wanted:
                filling.count += count
            elif count:  # these elements come after those that the chunk had when it was taken back
                self._store.put_last([array[filling.count : filling.count + count].copy() for array in filling.arrays])
