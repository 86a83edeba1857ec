"""Phrases that several findings share."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Line
from tilestep.figures.quantities import names_text, numbers_text, share_text
from tilestep.figures.records import Figures

CPU_DEFAULT: Final = "jax.default_device(jax.devices('cpu')[0])"  # its results may go on to an IPU; those of jit(backend='cpu') stay

LOOP: Final = "lax.scan"
ENDING_LOOP: Final = "lax.while_loop, which tests when to end"
MORE_STEPS: Final = "a larger n of repeat"
STAGE: Final = "jit_stage"  # JAX's program that copies an array of the host
STAGE_MAKERS: Final = "jnp.asarray and jnp.array of an array of the host"
_MOST_LINES: Final = 20  # in a text; the JSON has all

_LOOP: Final = re.compile(r"(.+) \d+ (\d+)\+(\d+)")  # the program group of a loop of this package: the body's name, and numbers
AS_ONE: Final = "played as one program"
CPU_FREE: Final = "the CPU's own time not counted"


def times_text(number: int) -> str:
    """'once', '3 times'."""
    return "once" if number == 1 else f"{number:,} times"


def group_text(name: str) -> str:
    """'program group 'pipeline 1'', 'the loop over step'."""
    loop = _LOOP.fullmatch(name)
    return f"program group '{name}'" if loop is None else f"the loop over {loop[1]}"


def is_loop(group: str) -> bool:
    """Whether a program group is a loop of this package, so that nobody has given it its name."""
    return _LOOP.fullmatch(group) is not None


def chunks_of(group: str) -> tuple[int, int]:
    """(steps of a chunk, steps of the last chunk of a call if that is shorter, else 0) of a program group that is a loop.

    Raises: ValueError for another group.
    """
    loop = _LOOP.fullmatch(group)
    if loop is None:
        raise ValueError(f"program group '{group}' is no loop of this package")
    return int(loop[2]), int(loop[3])


def left_texts(left: Iterable[tuple[int, str]]) -> list[str]:
    """A phrase for each reason: '4, which saves nothing beside them', of findings that are not among those that are played together.

    Args: left: the numbers of the findings, each with its reason, as `Together` has it.
    """
    by_reason: dict[str, list[int]] = {}
    for number, why in left:
        by_reason.setdefault(why, []).append(number)
    found: list[str] = []
    for why, numbers in by_reason.items():
        nothing = one_or(numbers, "saves nothing beside them", "save nothing beside them")
        reasons = {
            "same line": one_or(numbers, "another edit at a line that one of them changes", "other edits at lines that they change"),
            "saves nothing": f"which {nothing}",
            "not played": "which cannot be played with them",
        }
        found.append(f"{numbers_text(numbers)}, {reasons.get(why, f'which cannot be played with them or {nothing}')}")
    return found


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
