"""Work that a signal's handler must not end half-way."""

from __future__ import annotations

import threading
from collections.abc import Callable


def uninterrupted(work: Callable[[], None]) -> None:
    """Does the work in a thread of its own, because handlers of signals run in the main thread only.

    Raises: the work's exception; else the exception that a handler raised meanwhile, when the work is over.
    """
    over = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    try:
        threading.Thread(target=run, name="tilestep-journal", daemon=True).start()
    except RuntimeError:  # the interpreter is about to end: it starts no more threads
        work()
        return
    interrupt: BaseException | None = None
    while not over.is_set():
        try:
            over.wait()
        except BaseException as error:
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt
