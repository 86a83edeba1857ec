"""Whole numbers that callers give."""

from __future__ import annotations

import operator
from typing import Any


def whole_number(name: str, value: Any, *, least: int, most: int | None = None, hint: str = "") -> int:
    """`value` as an int. Raises: TypeError, which ends with `hint`, if it is no whole number, ValueError if it is out of bounds."""
    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be a whole number, {bounds}{hint}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {number}: it must be {bounds}")
    return number
