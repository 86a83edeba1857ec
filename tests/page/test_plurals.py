"""One of each: a view says '1 step', not '1 steps', and '1 value is', not '1 value are'."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.page.conftest import OpenPage
from tests.page.pages import VIEWS, go
from tests.unit.figures.reader.recorded import report_of, step
from tests.unit.sim.toy import program
from tilestep.figures.reader import Report

SINGULAR = {
    "is",
    "has",
    "was",
    "takes",
    "needs",
    "less",
    "times",
    "this",
    "its",
    "pass",
    "ms",
    "s",
    "ns",
    "\u00b5s",
    "bus",
    "axis",
    "gives",
}
SAID = """() => {
    for (const each of document.querySelectorAll("#main details")) each.open = true;
    const words = [...document.querySelectorAll("#main p, #main li, #main h2, #main h3, #main summary, #main .note, #main option")];
    const names = [...document.querySelectorAll("#main [aria-label]")].map((each) => each.ariaLabel);
    const tips = [...document.querySelectorAll("#main [data-tip]")].map((each) => each.dataset.tip);
    return [...words.map((each) => each.textContent), ...names, ...tips];
}"""


def wrong(said: Sequence[str]) -> set[str]:
    """What is said of one thing as if it were several, and of several as if they were one."""
    found: set[str] = set()
    for words in said:
        for match in re.finditer(r"(?<![\d.,:/\u2212-])1 ([a-z]+)(?: (are|have|were)\b)?", words):
            if match[2] or (match[1].endswith("s") and match[1] not in SINGULAR) or match[1] in ("are", "have", "were"):
                found.add(words[max(0, match.start() - 30) : match.end() + 30])
    return found


def one_of_each() -> Report:
    """One program with one step, which ran once on one IPU."""
    return report_of(program(step("a", "jit(f)/a", 40, 1), name="f"), runs=1)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2])
def test_no_view_says_one_as_several(open_page: OpenPage, reports: int) -> None:
    page = open_page([one_of_each() for _ in range(reports)], VIEWS[0])
    found: dict[str, set[str]] = {}
    for view in VIEWS if reports == 2 else VIEWS[:-1]:
        go(page, view)
        found[view] = wrong(page.evaluate(SAID))
    assert {view: words for view, words in found.items() if words} == {}
