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


def checks() -> Iterator[object]:
    """All rows in all modes. What compiles for seconds runs in the long form of the tests only: some rows, most eager gradients."""
    for case in CASES:
        modes = [
            mode
            for mode in ("jit", "eager", "eager gradient")
            if mode.startswith(case.only or mode) and (case.grad or "gradient" not in mode)
        ]
        for mode in modes:
            slow = case.long or (mode == "eager gradient" and case not in QUICK)
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
