"""A pass over a dataset: its iterator, which outlives what it raises, where it begins, and why it ended.

An iterator that has raised may go on: who asks for the next element again gets it. A generator that has raised is over by Python's rules.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, final

from tilestep.errors import DatasetError
from tilestep.train.datasets import go_to
from tilestep.train.untyped import Pytree


@final
class Ending:
    """The exception that has ended a pass, if one has; StopIteration if the dataset was over. The feeder's lock guards it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._is_told = False  # a loop has got the exception
        self._told: tuple[int, str] | None = None  # (elements pulled, text) of the last exception that a loop has got

    @property
    def has_come(self) -> bool:
        """Whether the pass has ended."""
        return self._error is not None

    @property
    def is_over(self) -> bool:
        """Whether the dataset was over."""
        return isinstance(self._error, StopIteration)

    def set(self, error: BaseException) -> None:
        """The pass has ended."""
        self._error, self._trace = error, error.__traceback__

    def clear_told(self) -> bool:
        """Forgets an exception that a loop has got, because the next loop asks the dataset again. Returns: whether there was one."""
        if not self._is_told:
            return False
        self._error, self._trace, self._is_told = None, None, False
        return True

    def tell(self, pulled: int) -> BaseException:
        """The exception for a loop that needs more elements. Args: pulled: elements that the dataset has given.

        The exception of a dataset gets the traceback with which it came. Else it would keep the frames that it has passed since, and with
        them the queue and the loop's carry.
        """
        assert self._error is not None
        if self.is_over:
            return StopIteration()
        self._is_told, self._told = True, (pulled, f"{type(self._error).__name__}: {self._error}")
        return self._error.with_traceback(self._trace)

    def raised(self, pulled: int) -> str | None:
        """The text of the exception before, if the dataset is over and has given no element since that exception."""
        return self._told[1] if self.is_over and self._told is not None and self._told[0] == pulled else None


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a pass over a dataset begins: at what `dataset_state` says (None: at its beginning), then `skip` elements on."""

    elements: int = 0
    skip: int = 0
    dataset_state: Any = None


@final
class DatasetPass:
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
