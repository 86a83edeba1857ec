"""Phrases that several findings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilestep.report.advice.finding import Line
from tilestep.report.quantities import names_text

CPU_DEFAULT: Final = "jax.default_device(jax.devices('cpu')[0])"  # its results may go on to an IPU; those of jit(backend='cpu') stay

AS_ONE: Final = "played as one program"
CPU_FREE: Final = "the CPU's own time not counted"


def times_text(number: int) -> str:
    """'once', '3 times'."""
    return "once" if number == 1 else f"{number:,} times"


def one_or(things: Sequence[object], one: str, several: str) -> str:
    """The word for one thing, or for several."""
    return one if len(things) == 1 else several


def lines_text(lines: Sequence[Line | None]) -> str:
    """'train.py:12, train.py:15 and 2 more'; '' if no line is known."""
    return names_text(list(dict.fromkeys(str(line) for line in lines if line is not None)), most=3)
