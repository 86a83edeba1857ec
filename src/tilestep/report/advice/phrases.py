"""Phrases that several findings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Line
from tilestep.report.figures import Figures
from tilestep.report.quantities import names_text, share_text

CPU_DEFAULT: Final = "jax.default_device(jax.devices('cpu')[0])"  # its results may go on to an IPU; those of jit(backend='cpu') stay

STAGE: Final = "jit_stage"  # JAX's program that copies an array of the host
STAGE_MAKERS: Final = "jnp.asarray and jnp.array of an array of the host"
_MOST_LINES: Final = 20  # in a text; the JSON has all

AS_ONE: Final = "played as one program"
CPU_FREE: Final = "the CPU's own time not counted"


def times_text(number: int) -> str:
    """'once', '3 times'."""
    return "once" if number == 1 else f"{number:,} times"


def one_or(things: Sequence[object], one: str, several: str) -> str:
    """The word for one thing, or for several."""
    return one if len(things) == 1 else several


def shares_text(shares: Sequence[tuple[Line, float]]) -> str:
    """'train.py:12 (60 %), train.py:15 (40 %)', up to twenty of them; one line alone has no share; '' if there is none."""
    if len(shares) == 1:
        return str(shares[0][0])
    return names_text([f"{line} ({share_text(share, 1)})" for line, share in shares], most=_MOST_LINES)


def named(figures: Figures, evidence: Evidence | None, key: int) -> str:
    """The name of a program. Of one that the user did not write, with what of the user's makes it."""
    label = figures.label(key)
    profile = next(program for program in figures.programs if program.key == key)
    if profile.origin != "jax":
        return label
    line = None if evidence is None else evidence.line_of_call(key)
    makes = f"which {STAGE_MAKERS} run" if profile.name == STAGE else "an operation outside of jit"
    return f"{label} ({makes}{'' if line is None else f', at {line}'})"
