"""A bar on the terminal with the steps that a loop has done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextlib.contextmanager
def shown(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Shows the bar while the block runs; what it yields takes the number of steps done. Args: total: steps; None: nobody knows."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=False) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.update(task, completed=done)
