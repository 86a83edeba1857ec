"""The values of a system by their numbers, and errors about numbers that name none."""

from __future__ import annotations

from collections.abc import Mapping

from tilestep.sim.residency import Value


def require_value(values: Mapping[int, Value], number: int) -> Value:
    """The value of a number. Raises: ValueError if there is none."""
    found = values.get(number)
    if found is None:
        raise ValueError(unknown_value(number))
    return found


def require_new(values: Mapping[int, Value], number: int) -> None:
    """Raises: ValueError if a number names a value already."""
    if number in values:
        raise ValueError(existing_value(number))


def require_not_donated(number: int, value: Value) -> None:
    """Raises: ValueError if no memory holds the value any more."""
    if value.host_ready < 0 and value.memory_ready < 0 and (not value.epoch or value.made_by is None):
        raise ValueError(donated_value(number))


def unknown_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} is unknown: it was never made, or it was forgotten"


def existing_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} exists already: every value needs a number of its own"


def donated_value(value: int) -> str:
    """Text of the error."""
    return f"value {value} was donated and the host has no copy of it: nobody can use it any more"
