"""Whole numbers as arguments."""

import operator
from enum import Enum
from typing import Final, SupportsIndex

from tilestep.messages import shown

_HIGHEST: Final = 2**63 - 1


def whole(name: str, value: SupportsIndex) -> int:
    """The number. Args: name: of the argument. Raises: TypeError naming it, for what is none, and for one that 64 bits do not hold."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, Enum):
        raise TypeError(f"{name} must be a whole number, not {shown(value)} ({type(value).__name__})")
    if not -_HIGHEST - 1 <= number <= _HIGHEST:
        raise TypeError(f"{name} must be a whole number of 64 bits, not {shown(value)}")
    return number
