"""Bytes of pointers and lists of work, by hand from poplibs' ConvVertices.cpp."""

from __future__ import annotations

import pytest

from tilestep.plan.work_lists import by_element_bytes, one_element_bytes, pointers_bytes, runs


def test_pointers_to_inputs_weights_and_results() -> None:
    assert pointers_bytes(1, 2, 3) == 4 * (2 + 6 + 3)
    assert pointers_bytes(5, 2, 3) == 5 * 4 * (2 + 6 + 3)


@pytest.mark.parametrize(
    ("rows", "row_length", "found"),
    [
        (6, 56, 6),  # a row for each worker
        (1, 56, 6),  # of one row a sixth
        (1, 2, 2),  # four workers idle
        (4, 7, 8),  # cut at 4, 9, 14, 18 and 23 of 28: the second worker ends one row and begins the next, as does the fifth
        (12, 1, 12),  # rows of one element
    ],
)
def test_runs_of_the_workers(rows: int, row_length: int, found: int) -> None:
    assert runs(rows, row_length, 6) == found


def test_a_kernel_of_one_element_has_a_run_for_each_worker() -> None:
    assert one_element_bytes(1, 2, 3, 6) == 4 * (2 + 6 + 3) + 6 * 6


def test_a_larger_kernel_has_lists_for_each_element() -> None:
    asked = by_element_bytes(1, 2, 3, elements=9, rows=12, row_length=1, workers=6)
    assert asked == 4 * (2 + 6 + 3) + 9 * (6 * 4 + 12 * 6)
