"""What is announced in a process, for who listens in a stretch of it."""

import contextlib
from collections.abc import Iterator
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Announced(Generic[T]):
    """One kind of announcements. They stay with who listens."""

    def __init__(self) -> None:
        self._listening: list[list[T]] = []  # each block that runs has a list

    @contextlib.contextmanager
    def heard(self) -> Iterator[list[T]]:
        """Yields a list that takes up what is announced in the block."""
        found: list[T] = []
        self._listening.append(found)
        try:
            yield found
        finally:
            self._listening = [other for other in self._listening if other is not found]  # lists of other blocks may be equal

    def announce(self, what: T) -> None:
        """Adds it to the list of each block that runs."""
        for found in self._listening:
            found.append(what)
