"""All rows, from all families."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from . import (
    cases_callback,
    cases_collective,
    cases_contract,
    cases_control,
    cases_dtype,
    cases_elementwise,
    cases_library,
    cases_linalg,
    cases_random,
    cases_reduce,
    cases_shape,
    cases_sparse,
    cases_special,
)
from .case import OpCase

FAMILIES = (
    cases_elementwise,
    cases_special,
    cases_reduce,
    cases_shape,
    cases_contract,
    cases_linalg,
    cases_random,
    cases_control,
    cases_collective,
    cases_callback,
    cases_sparse,
    cases_dtype,
    cases_library,
)
CASES: tuple[OpCase, ...] = tuple(case for family in FAMILIES for case in family.CASES)
# Rows whose eager gradients are a few small programs.
QUICK = frozenset(cases_elementwise.CASES)
MOST_TOGETHER = 12
EVERY_DTYPE = ", every dtype"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of one family that are compiled as one program."""

    name: str
    cases: tuple[OpCase, ...]


def together() -> Iterator[Batch]:
    """What `make test` runs as jitted programs: rows of one family that agree on 64-bit types, and of both, on the devices.

    An operation that has a short row of every dtype is in that row only.
    """
    covered = {case.name.removesuffix(EVERY_DTYPE) for case in CASES if case.name.endswith(EVERY_DTYPE) and not case.long}
    for family in FAMILIES:
        kinds: dict[tuple[str, bool, bool], list[OpCase]] = {}
        for case in family.CASES:
            if not (case.long or case.only == "eager" or case.name in covered):
                every = EVERY_DTYPE if case.name.endswith(EVERY_DTYPE) else ""
                kinds.setdefault((every, case.x64, case.ipus > 0), []).append(case)
        for (every, x64, spread), cases in kinds.items():
            wide = ", 64 bit" if x64 and not every else ", four devices" if spread else ""
            for turn, some in enumerate(chunks(cases, MOST_TOGETHER)):
                yield Batch(name=f"{family_name(family)}{every}{wide} {turn + 1}", cases=some)


def chunks(cases: Sequence[OpCase], most: int) -> Iterator[tuple[OpCase, ...]]:
    for start in range(0, len(cases), most):
        yield tuple(cases[start : start + most])


def family_name(family: ModuleType) -> str:
    return family.__name__.rpartition("cases_")[2]
