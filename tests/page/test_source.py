"""View Source: costs beside lines, and what a line became."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.page.conftest import OpenPage
from tests.page.pages import rows, text, values
from tests.unit.figures.reader.recorded import FRAMES, liveness, recorded, report_of, run_of, two_stages
from tests.unit.views.page.test_source import Changed
from tilestep.figures.reader import Report, open_report
from tilestep.figures.rows import StepRow, step_rows
from tilestep.plan.steps import Frame

CODE = "\n".join(["# the program", "def loss(x):", "    return dot(x)", "", *["#"] * 4, "loss(1)"])


def with_code(code: str = CODE, line: int = 3, trips: int = 5, file: str = "/home/me/train.py") -> Report:
    """A recording of runs of a program whose steps come from a line of a file."""
    frames = (FRAMES[0], Frame(file=file, function="loss", line=line, column=5, parent=1), FRAMES[2])
    called = replace(two_stages(trips=trips), frames=frames)
    return Report(Changed(recorded(run_of(called, runs=2), [called]), {"sources": {file: code}}))


def by_line(report: Report) -> dict[int, list[StepRow]]:
    """The rows of steps by number of their line."""
    found: dict[int, list[StepRow]] = {}
    for row in step_rows(report):
        if row.line:
            found.setdefault(int(row.line.rpartition(":")[2]), []).append(row)
    return found


def margin(page: Page) -> list[list[Any]]:
    """[number, figures] of all lines of the file."""
    return page.evaluate("document.querySelector('.scroller.code').allRows()")


@pytest.mark.slow
def test_its_first_line_names_the_line_that_costs_most(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "source")
    costs = {line: sum(row.cycles for row in found) for line, found in by_line(open_report(mnist_plain)).items()}
    most = max(costs, key=lambda line: costs[line])
    whole = sum(row.cycles for row in step_rows(open_report(mnist_plain)))
    assert f"mnist_plain.py:{most}" in page.inner_text(".answer a")
    every = open_report(mnist_plain).execution.total_cycles.total
    sums = open_report(mnist_plain).execution.total_cycles.by_kind
    moved = sum(sums.get(kind, 0) for kind in ("save", "load", "stream-in", "stream-out"))  # it has one program, and one line calls it
    assert [each["value"] for each in values(page, ".answer")] == [costs[most], costs[most] / whole, whole / every, every, moved]
    [(line, *_)] = [each for each in margin(page) if each[-2]]
    assert f"The calls of examples/mnist_plain.py:{line} load and transfer most: " in page.inner_text(".answer")
    assert "programs added up" not in page.inner_text(".answer")
    shares = [each["tip"].split()[0] for each in values(page, ".answer") if each["unit"] == "share"]
    assert all(len(share.replace(".", "").lstrip("0")) <= 6 for share in shares)
    assert "the rest is loads, transfers and waits" in page.inner_text(".answer")


@pytest.mark.slow
def test_a_line_has_its_steps_by_kind_and_who_called_it(open_page: OpenPage, mnist_plain: Path) -> None:
    theirs = by_line(open_report(mnist_plain))
    line = max(theirs, key=lambda line: sum(row.cycles for row in theirs[line]))
    page = open_page(mnist_plain, "source", line=line)
    found = rows(page, "steps of the line")
    assert sum(row[4] for row in found) == sum(row.cycles for row in theirs[line])
    kinds = Counter(dict.fromkeys(range(5), 0))
    for row in found:
        kinds.update(dict(enumerate(row[5:10])))
    assert [kinds[place] for place in range(5)] == [
        sum(getattr(row, kind) for row in theirs[line]) for kind in ("compute", "exchange", "sync", "collective", "host_call")
    ]
    assert "← loss:" in page.inner_text(".callers")
    assert "cli" not in page.inner_text(".callers")


def test_without_code_the_lines_stand_in_a_table(open_page: OpenPage) -> None:
    report = report_of(two_stages(), runs=2, detail=liveness())
    page = open_page(report, "source", line=3)
    assert "made without the code" in text(page)
    assert values(page, ".figures")
    assert all(each["value"] for each in values(page, ".figures")), "what is zero is not told"
    [[number, function, cycles, _, exchange, tile, executions]] = rows(page, "lines of train.py")
    row = by_line(report)[3][0]
    assert (number, function, cycles, executions, tile) == (3, "loss", row.cycles, row.executions, 32)
    assert exchange == 0


def test_a_long_path_is_cut_at_its_front(open_page: OpenPage) -> None:
    report = with_code(file=f"{'deep/' * 20}train.py")
    [name] = open_page(report, "source").locator(".choice option").first.all_inner_texts()
    assert name.startswith("…")
    assert "/train.py (" in name
