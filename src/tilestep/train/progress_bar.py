"""A bar on the terminal with the steps that a loop has done, or the elements that an infeed has skipped."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich import get_console
from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LATE_WALL_S: Final = 1.0


@contextlib.contextmanager
def shown(name: str, total: int | None, console: Console | None = None) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """Shows the bar while the block runs. It yields what takes the number of steps done, and what takes another name.

    Args: total: steps; None: nobody knows. console: None: rich's own.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=False) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.update(task, completed=done), lambda name: progress.update(task, description=name)


@contextlib.contextmanager
def shown_late(
    name: str, total: int, *, clock: Callable[[], float] = time.monotonic, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """The same for what may be over at once: the bar comes after a second, on a terminal on which no other one is. Args: clock: wall s."""
    console, due = console or get_console(), clock() + _LATE_WALL_S
    advance: Callable[[int], None] | None = None if console.is_terminal else _nothing
    with contextlib.ExitStack() as stack:

        def show(done: int) -> None:
            nonlocal advance
            if advance is None and clock() >= due:
                advance = _nothing
                with contextlib.suppress(LiveError):
                    advance = stack.enter_context(shown(name, total, console))[0]
            if advance is not None:
                advance(done)

        yield show


def _nothing(done: int) -> None:
    del done
