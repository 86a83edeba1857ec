"""A bar on the terminal while a dataset without a place of its own goes to that of a checkpoint: it makes its first elements again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

_AFTER_WALL_S: Final = 1.0


@contextlib.contextmanager
def skipping(total: int, *, clock: Callable[[], float] = time.monotonic, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Gives what takes the number of elements skipped. The bar comes after a second, on a terminal on which no other one is.

    Args: total: elements. clock: wall seconds. console: None: rich's own.
    """
    advance: Callable[[int], None] | None = None
    due = clock() + _AFTER_WALL_S
    with contextlib.ExitStack() as stack:

        def show(done: int) -> None:
            nonlocal advance
            if advance is None and clock() >= due:
                advance = _bar(total, console, stack)
            if advance is not None:
                advance(done)

        yield show


def _bar(total: int, console: Console | None, stack: contextlib.ExitStack) -> Callable[[int], None]:
    from rich import get_console  # rich takes a while to import
    from rich.errors import LiveError

    from tilestep.train.progress_bar import shown

    console = console or get_console()
    if console.is_terminal:
        with contextlib.suppress(LiveError):
            return stack.enter_context(shown("skipping elements of the dataset", total, console))[0]
    return lambda done: None
