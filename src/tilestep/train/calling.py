"""How a user's function is called: an element as arguments, and the name that messages give the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilestep.train.untyped import Pytree

Body = Callable[..., Any]
Step = Callable[[Any, Any], tuple[Any, Any]]  # (carry, element) -> (carry, values for the outfeed)


def name_of(function: Any) -> str:
    """How messages and programs call a function."""
    return str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "lambda")


def arguments_of(element: Pytree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An element as arguments: a tuple's or list's items, a mapping with string keys as keywords, anything else as it is."""
    if isinstance(element, tuple | list):
        return tuple(element), {}
    if isinstance(element, Mapping) and all(isinstance(key, str) for key in element):
        return (), dict(element)
    return (element,), {}
