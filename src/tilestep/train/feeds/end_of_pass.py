"""Why a pass over a dataset has ended."""

from __future__ import annotations

from types import TracebackType
from typing import final


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
