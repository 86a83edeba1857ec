"""Numbers for people: seconds, bytes, counts and shares with sensible units."""

from collections.abc import Sequence
from typing import Final

_TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTE_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def time_text(seconds: float, *others: float) -> str:
    """'1.23 ms'; '0 s' for nothing; minutes from 120 s on. With the two ends of an interval: '1.23 ms (1.10 to 1.40)'."""
    if not seconds:
        return "0 s"
    if seconds >= 120:
        scale, unit = (60, "min") if seconds < 7200 else (3600, "h")
        numbers = [f"{each / scale:.1f}" for each in (seconds, *others)]
    else:
        scale, unit = next(((scale, unit) for scale, unit in _TIME_UNITS if seconds >= scale), _TIME_UNITS[-1])
        numbers = [_three_digits(each / scale) for each in (seconds, *others)]
    return f"{numbers[0]} {unit}" + (f" ({' to '.join(numbers[1:])})" if others else "")


def bytes_text(size_bytes: int) -> str:
    """'1.5 KiB'; whole bytes below 1 KiB."""
    for scale, unit in _BYTE_UNITS:
        if size_bytes >= scale:
            return f"{_three_digits(size_bytes / scale)} {unit}"
    return f"{size_bytes} B"


def share_text(part: float, whole: float) -> str:
    """'12 %', '1.2 %', '<0.1 %'; '-' of nothing."""
    if whole <= 0:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def count_text(number: int, noun: str) -> str:
    """'1 load', '2,000 loads'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def names_text(names: list[str] | tuple[str, ...], *, most: int = 4) -> str:
    """'a, b, c, d and 3 more'."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _three_digits(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def numbers_text(numbers: Sequence[int]) -> str:
    """'1 to 3', '1, 2 and 4'."""
    first, last = min(numbers), max(numbers)
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{first} to {last}"
    *others, end = map(str, numbers)
    return f"{', '.join(others)} and {end}" if others else end
