"""A bar on the terminal with the steps that a loop has done, or the elements that an infeed has skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextlib.contextmanager
def shown(name: str, total: int | None, console: Console | None = None) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """Shows the bar while the block runs. It yields what takes the number of steps done, and what takes another name.

    Args: total: steps; None: nobody knows. console: None: rich's own.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=False) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.update(task, completed=done), lambda name: progress.update(task, description=name)
