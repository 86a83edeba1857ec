"""Processes that share work, and end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def shared(work: Callable[[Given], Made], entries: Sequence[Given], jobs: int) -> Iterator[Made]:
    """Results as they come, of so many processes."""
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        for done in as_completed([pool.submit(work, entry) for entry in entries]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C nobody waits for the others


def _end_with_parent() -> None:
    """A worker waits for its next task at a pipe that it holds open itself, so it would not notice that nobody sends one any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a worker

    def watch() -> None:
        parent.join()
        os._exit(1)  # in the middle of its task: nobody takes the result

    threading.Thread(target=watch, name="ends with its parent", daemon=True).start()
