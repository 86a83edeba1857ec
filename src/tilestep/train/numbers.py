"""Numbers that callers give."""

import math
import operator
from numbers import Real
from typing import Any, TypeVar

from tilestep.messages import shown

Number = TypeVar("Number")

_ENDLESS = 2**31 - 1  # a bound that only a mistake exceeds; messages about other mistakes leave it out


def whole_number(name: str, value: Any, *, least: int, most: int | None = None, hint: str = "") -> int:
    """`value` as an int. Raises: TypeError, which ends with `hint`, if it is no whole number, ValueError if it is out of bounds."""
    bounds = f"{least} or more" if most is None or most >= _ENDLESS else f"{least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}: it must be a whole number, {bounds}{hint}") from None
    if number < least:
        raise ValueError(f"{name} is {shown(number)}: it must be {bounds}")
    if most is not None and number > most:
        raise ValueError(f"{name} is {shown(number)}: it must be {least} to {most:,}")
    return number


def real_number(name: str, value: Number, *, least: float = 0.0, unit: str = "") -> Number:
    """A number as it is, finite, and not below `least`. Raises: TypeError for what is none, ValueError for one out of bounds."""
    must = f"it must be a number, {least:g} or more{unit}"
    if isinstance(value, bool) or not isinstance(value, Real):  # NumPy's numbers are such
        raise TypeError(f"{name} is {shown(value)}: {must}")
    try:
        is_good = least <= float(value) < math.inf
    except OverflowError:  # a whole number that no float holds
        is_good = False
    if not is_good:
        raise ValueError(f"{name} is {shown(value)}: {must}, and finite")
    return value
