"""Lines of a page, each written once."""

from __future__ import annotations

import pytest

from tilestep.figures.reader import SourceLine
from tilestep.views.page.sections.string_table import Lines, Texts


def chain(count: int) -> list[SourceLine]:
    """So many lines, each called by the one before."""
    lines: list[SourceLine] = []
    for number in range(1, count + 1):
        lines.append(SourceLine(file="a.py", function="f", line=number, column=0, caller=lines[-1] if lines else None))
    return lines


@pytest.mark.slow
def test_a_chain_of_callers_has_an_end_in_whatever_order_its_lines_come() -> None:
    called = chain(1100)
    for first in ([], [called[700]]):
        lines = Lines(str, Texts())
        numbers = [lines.number(each) for each in (*first, called[-1], *called)][-len(called) :]
        assert len(set(numbers)) == len(lines.all) == len(called)
        assert [place for place, number in enumerate(numbers) if lines.all[number][3] < 0] == [0, 1000]
