"""One process's share of a dataset that all processes have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from tilestep.messages import shown
from tilestep.train.datasets import go_to, knows_its_place, place_of
from tilestep.train.untyped import Pytree


@final
@dataclass(frozen=True, kw_only=True)
class ProcessShare:
    """The share as an iterable: each pass over it is one over the dataset."""

    begin: Callable[[], Iterator[Pytree]]  # begins a pass over the dataset
    count: int  # elements of a step, of all processes
    mine: frozenset[int]  # which of them are this process's

    def __iter__(self) -> Iterator[Pytree]:
        """A pass. It knows its place if the dataset's iterator does."""
        iterator = self.begin()
        if len(self.mine) == self.count:
            return iterator
        return (_SavingPass if knows_its_place(iterator) else _Pass)(iterator, self.count, self.mine)


class _Pass(Iterator[Pytree]):
    """A pass over a share. It goes on after what the dataset's iterator raises, if that iterator does."""

    def __init__(self, iterator: Any, count: int, mine: frozenset[int]) -> None:
        self._iterator, self._count, self._mine = iterator, count, mine
        self._next = 0  # the number in its step of the dataset's next element

    def __next__(self) -> Any:
        while True:
            element = next(self._iterator)
            number, self._next = self._next, (self._next + 1) % self._count
            if number in self._mine:
                return element

    def close(self) -> None:
        """Closes the dataset's iterator, if it can be closed."""
        close = getattr(self._iterator, "close", None)
        if callable(close):
            close()


@final
class _SavingPass(_Pass):
    """A pass over the share of a dataset whose iterator knows its place."""

    def get_state(self) -> dict[str, Any]:
        """Where it is: the dataset's own state, and the number in its step of the dataset's next element."""
        return {"dataset": place_of(self._iterator), "next": self._next}

    def set_state(self, state: Pytree) -> None:
        """Goes there. Raises: ValueError for the state of a dataset that was not shared, or was over other replicas."""
        if not isinstance(state, Mapping) or set(state) != {"dataset", "next"} or state["next"] not in range(self._count):
            raise ValueError(
                f"{shown(state)} is no state of a dataset that {self._count} replicas share: restore what was saved with as many processes"
            )
        go_to(self._iterator, state["dataset"])
        self._next = state["next"]
