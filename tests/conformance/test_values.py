"""Value and gradient of every row, jit and eager: `ipu` gives what JAX's CPU platform gives, and every operation is priced."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest

import tilestep

from .case import OpCase
from .evaluate import Mode, run
from .rows import CASES, QUICK

SAMPLED = 3


def checks() -> Iterator[object]:
    """All rows in all modes.

    `make test` runs each row as one program, which has its gradient, too, except those that compile for seconds. It runs one row of SAMPLED
    operation by operation, and of these the gradients of quick ones.
    """
    for number, case in enumerate(CASES):
        modes = [
            mode
            for mode in ("jit", "eager", "eager gradient")
            if mode.startswith(case.only or mode) and (case.grad or "gradient" not in mode)
        ]
        for mode in modes:
            sampled = number % SAMPLED == 0 and (mode == "eager" or case in QUICK)
            slow = case.long or (mode != "jit" and case.only != mode and not sampled)
            yield pytest.param(case, mode, id=f"{case.name}, {mode}", marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("case", "mode"), list(checks()))
def test_ipu_gives_what_cpu_gives(case: OpCase, mode: Mode, ipus: list[jax.Device], cpus: list[jax.Device]) -> None:
    expected = run(case, mode, cpus)
    with tilestep.profile() as profile:
        actual = run(case, mode, ipus)
    assert sorted({operation for program in profile.programs for operation in program.fallback_ops}) == []
    assert len(actual) == len(expected) > 0
    for ours, theirs in zip(actual, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if case.rtol or case.atol:
            np.testing.assert_allclose(ours, theirs, rtol=case.rtol, atol=case.atol)
        else:
            assert ours.tobytes() == theirs.tobytes(), f"not equal to the bit:\n{ours}\n{theirs}"


def test_row_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))
