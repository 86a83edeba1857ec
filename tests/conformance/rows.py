"""All rows, from all families."""

from __future__ import annotations

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
    cases_scipy,
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
    cases_scipy,
)
CASES: tuple[OpCase, ...] = tuple(case for family in FAMILIES for case in family.CASES)
# Rows whose eager gradients are a few small programs.
QUICK = frozenset((*cases_elementwise.CASES, *cases_collective.CASES))
