"""Python callbacks on their way from JAX's lowering to the compiled program."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from tilestep.errors import UnsupportedError
from tilestep.pjrt.jax_private.mlir import attribute_int, custom_call_target, set_attribute_int, walk

_numbers = itertools.count()
_callbacks: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()


def keep(callback: Callable[..., Any]) -> int:
    """A number for a callback; it holds for as long as JAX keeps the callback (it does while it keeps the lowered program)."""
    number = next(_numbers)
    _callbacks[number] = callback
    return number


def renumber(module: Any) -> list[Callable[..., Any]]:
    """Gives a program's callbacks numbers from 0, and returns the callbacks in that order.

    Raises: UnsupportedError if the program was made by another process, whose functions are not here.
    """
    found: list[Callable[..., Any]] = []

    def visit(operation: Any) -> None:
        target = custom_call_target(operation)
        if target is None or "python_cpu_callback" not in target:
            return
        number = attribute_int(operation, "index")
        callback = _callbacks.get(number)
        if callback is None:
            raise UnsupportedError(
                f"callback {number} of {target} does not exist in this process; programs with callbacks run where they were made"
            )
        set_attribute_int(operation, "index", len(found))
        found.append(callback)

    walk(module, visit)
    return found
