"""Figures of JSON that may come from anybody: what has another type than it should counts as absent."""

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from tilestep.views.page.block import MOST_EXACT

_MOST: Final = 10_000  # items of a list


def text_in(record: Any, name: str) -> str:
    """A text of an object; '' if there is none."""
    value = cast("dict[str, Any]", record).get(name) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def number_in(record: Any, name: str) -> int | float | None:
    """A finite number of an object, within what a page holds exactly; None if there is none."""
    value = cast("dict[str, Any]", record).get(name) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > MOST_EXACT:
        return None
    return value


def records_in(record: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list of an object."""
    return [cast("dict[str, Any]", item) for item in _items(record, name) if isinstance(item, dict)]


def texts_in(record: Any, name: str) -> list[str]:
    """The texts of a list of an object."""
    return [item for item in _items(record, name) if isinstance(item, str)]


def _items(record: Any, name: str) -> list[Any]:
    value = cast("dict[str, Any]", record).get(name) if isinstance(record, dict) else None
    return cast("list[Any]", value)[:_MOST] if isinstance(value, list) else []
