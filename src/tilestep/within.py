"""A context variable that has a value inside of a block. Imports nothing of tilestep."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextlib.contextmanager
def within(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Inside of the block this thread's variable has that value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
