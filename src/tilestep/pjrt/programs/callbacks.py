"""Python callbacks on their way from JAX's lowering to the compiled program."""

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from tilestep.errors import UnsupportedError
from tilestep.pjrt.jax_private.mlir import attribute_int, custom_call_target, set_attribute_int, walk

_numbers = itertools.count()
_callbacks: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()


def keep(callback: Callable[..., Any]) -> int:
    """A number for a callback. It is valid while JAX keeps the callback, which is as long as it keeps the lowered program."""
    number = next(_numbers)
    _callbacks[number] = callback
    return number


def renumber(module: Any) -> list[Callable[..., Any]]:
    """Numbers a program's callbacks from 0. Returns: the callbacks in that order.

    Raises: UnsupportedError if another process made the program, because its functions do not exist here.
    """
    numbered: list[Callable[..., Any]] = []

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
        set_attribute_int(operation, "index", len(numbered))
        numbered.append(callback)

    walk(module, visit)
    return numbered
