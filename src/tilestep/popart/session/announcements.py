"""What is announced in a process, for who listens in a stretch of it."""

import contextlib
from collections.abc import Iterator
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Announced(Generic[T]):
    """One kind of announcements. They stay with who listens."""

    def __init__(self) -> None:
        self._lists_of_blocks: list[list[T]] = []

    @contextlib.contextmanager
    def heard(self) -> Iterator[list[T]]:
        """Yields a list that takes up what is announced in the block."""
        found: list[T] = []
        self._lists_of_blocks.append(found)
        try:
            yield found
        finally:
            self._lists_of_blocks = [other for other in self._lists_of_blocks if other is not found]  # lists of other blocks may be equal

    def announce(self, what: T) -> None:
        """Adds it to the list of each block that runs."""
        for found in self._lists_of_blocks:
            found.append(what)
