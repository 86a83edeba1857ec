"""Value and gradient of every row, jit and eager: `ipu` gives what JAX's CPU platform gives, and every operation is priced.

Rows are compiled a dozen at a time, which takes two thirds of what a program for each takes. `make test` runs one of `DRAWN` such
programs, drawn by their names, and some rows operation by operation. `make test-all` runs all, and each row in every mode besides, as
programs of its own.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any
from zlib import crc32

import jax
import numpy as np
import pytest

import tilestep

from .case import OpCase, since
from .evaluate import Mode, run, run_together
from .rows import CASES, FAMILIES, QUICK, Batch, chunks, family_name, together

EAGER = 8  # one of so many rows runs operation by operation
DRAWN = 4  # one of so many programs, or families, is in `make test`


def drawn(value: object, name: str) -> Any:
    return pytest.param(value, id=name, marks=pytest.mark.slow if crc32(name.encode()) % DRAWN else ())


@pytest.mark.few(6)
@pytest.mark.parametrize("batch", [drawn(batch, batch.name) for batch in together()])
def test_rows_in_one_program(batch: Batch, ipus: list[jax.Device], cpus: list[jax.Device]) -> None:
    spread = batch.cases[0].ipus and since(0, 12)  # which reads the results' shardings by one of a program's meshes
    parts = [(case,) for case in batch.cases] if spread else [batch.cases]
    expected = [found for cases in parts for found in run_together(cases, cpus)]
    with tilestep.profile() as profile:
        actual = [found for cases in parts for found in run_together(cases, ipus)]
    wrong = [differs(case, ours, theirs) for case, ours, theirs in zip(batch.cases, actual, expected, strict=True)]
    assert [*unpriced(profile), *filter(None, wrong)] == []


@pytest.mark.parametrize("family", [drawn(family, family_name(family)) for family in FAMILIES])
def test_some_rows_operation_by_operation(family: ModuleType, ipus: list[jax.Device], cpus: list[jax.Device]) -> None:
    """And all that JAX cannot trace."""
    sampled = [case for number, case in enumerate(family.CASES) if case.only == "eager" or number % EAGER == 0]
    wrong = [
        by_itself(case, mode, ipus, cpus)
        for case in sampled
        for mode in modes(case)
        if mode == "eager" or (mode == "eager gradient" and case in QUICK)
    ]
    assert list(filter(None, wrong)) == []


@pytest.mark.slow
@pytest.mark.parametrize("cases", [pytest.param(some, id=f"{some[0].name} to {some[-1].name}") for some in chunks(CASES, 25)])
def test_every_row_by_itself(cases: tuple[OpCase, ...], ipus: list[jax.Device], cpus: list[jax.Device]) -> None:
    wrong = [by_itself(case, mode, ipus, cpus) for case in cases for mode in modes(case)]
    assert list(filter(None, wrong)) == []


def modes(case: OpCase) -> Iterator[Mode]:
    for mode in ("jit", "eager", "eager gradient"):
        if mode.startswith(case.only or mode) and (case.grad or "gradient" not in mode):
            yield mode


def by_itself(case: OpCase, mode: Mode, ipus: list[jax.Device], cpus: list[jax.Device]) -> str:
    """What is wrong with the row, or ""."""
    try:
        expected = run(case, mode, cpus)
        with tilestep.profile() as profile:
            actual = run(case, mode, ipus)
    except Exception as error:
        error.add_note(f"in the row {case.name!r}, {mode}")
        raise
    return ", ".join(unpriced(profile)) or differs(case, actual, expected)


def unpriced(profile: tilestep.Profile) -> list[str]:
    return sorted({f"no price for {operation}" for program in profile.programs for operation in program.fallback_ops})


def differs(case: OpCase, actual: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Which of the row's results is not what was expected, or ""."""
    if len(actual) != len(expected) or not expected:
        return f"{case.name}: {len(actual)} results, not {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"{case.name}, result {number}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        if case.rtol or case.atol:
            if not np.allclose(ours, theirs, rtol=case.rtol, atol=case.atol, equal_nan=True):
                return f"{case.name}, result {number}, within {case.rtol} and {case.atol}:\n{ours}\n{theirs}"
        elif ours.tobytes() != theirs.tobytes():
            return f"{case.name}, result {number}, not equal to the bit:\n{ours}\n{theirs}"
    return ""


def test_row_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))
