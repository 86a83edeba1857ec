"""A pass over a dataset: its iterator, which outlives what it raises, and where it begins.

An iterator that has raised may go on: who asks for the next element again gets it. A generator that has raised is over by Python's rules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

from tilestep.errors import DatasetError
from tilestep.train.datasets import go_to
from tilestep.train.untyped import Pytree


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a pass over a dataset begins: at what `dataset_state` says (None: at its beginning), then `skip` elements on."""

    elements: int = 0
    skip: int = 0
    dataset_state: Any = None


@final
class Pass:
    """One pass over a dataset, for one thread at a time.

    Attributes:
        start: where it begins.
        in_hand: the element that has come last, as a list of one, as long as it has not been copied: should that fail, it is the next
            one again. Empty if there is none.

    Args: make_iterator: begins the pass. start: where.
    """

    def __init__(self, make_iterator: Callable[[], Iterator[Pytree]], start: Start) -> None:
        self.start = start
        self.in_hand: list[Any] = []
        self._make_iterator = make_iterator
        self._iterator: Iterator[Pytree] | None = None
        self._skipped = 0

    def iterator(self) -> Iterator[Pytree]:
        """Of the dataset, at the pass's next element. The first call begins the pass, and one that has raised is gone on with.

        Raises: what the dataset raises. DatasetError if it ends before the place where the pass begins.
        """
        if self._iterator is None:
            iterator = self._make_iterator()
            if self.start.dataset_state is not None:
                go_to(iterator, self.start.dataset_state)
            self._iterator = iterator
        if self._skipped < self.start.skip:
            from tilestep.train.progress_bar import shown_late  # rich takes a while to import

            with shown_late("skipping elements of the dataset", self.start.skip) as show:
                self._skip(self._iterator, show)
        return self._iterator

    def _skip(self, iterator: Iterator[Pytree], show: Callable[[int], None]) -> None:
        """Goes to where the pass begins."""
        while self._skipped < self.start.skip:
            try:
                next(iterator)
            except StopIteration:
                start = self.start
                raise DatasetError(
                    f"the dataset ended after {start.elements - start.skip + self._skipped:,} elements, before the position to which "
                    f"restore() goes: after {start.elements:,}. Restore the state of an equal dataset"
                ) from None
            self._skipped += 1
            show(self._skipped)

    def close(self) -> None:
        """Nothing more is asked of the dataset: closes its iterator, if it can be closed."""
        iterator, self._iterator = self._iterator, None
        self.in_hand = []
        close: Any = getattr(iterator, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):  # nobody is left to be told
                close()
