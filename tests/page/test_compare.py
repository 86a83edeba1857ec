"""View Compare: the figures of `tilestep report compare`."""

import pytest

from tests.page.conftest import OpenPage
from tests.page.pages import VIEWS, go, rows, text, values
from tests.unit.figures.reader.recorded import report_of, two_stages
from tilestep.figures.comparison import compare

NONE = "\u2013"  # where a line is not known


def test_its_figures_are_those_of_the_comparison(open_page: OpenPage) -> None:
    a, b = report_of(two_stages(trips=6), runs=2), report_of(two_stages(trips=5), runs=3)
    page, found = open_page((a, b), "compare"), compare(a, b)
    assert [each["value"] for each in values(page, ".whole")] == [found.emulated_cycles.a, found.emulated_cycles.b]
    [changed] = found.programs
    expected = [["two_stages", changed.matched, change.a, change.b] for _, change in changed.figures if change.a != change.b]
    assert [row[:2] + row[3:5] for row in rows(page, "programs that differ")] == expected
    assert "mean time of a run" in {row[2] for row in rows(page, "programs that differ")}  # and not that of the steps below
    assert "time of steps in a run, A" in text(page)
    steps = [[each.line or NONE, each.cycles_per_run.a, each.cycles_per_run.b] for each in found.steps]
    assert [[row[0], row[4], row[5]] for row in rows(page, "steps that differ")] == steps
    assert all(row[6] == row[5] - row[4] for row in rows(page, "steps that differ"))


@pytest.mark.slow
def test_its_first_lines_say_how_much_and_where(open_page: OpenPage) -> None:
    a, b = report_of(two_stages(trips=6), runs=2), report_of(two_stages(trips=5), runs=2)
    page, found = open_page((a, b), "compare"), compare(a, b)
    assert found.emulated_cycles.a is not None
    assert found.emulated_cycles.b is not None
    assert page.inner_text(".whole").startswith("B takes less emulated time than A: B \u2212 A is \u2212")
    assert page.locator(".whole .shrinks").count() == 1
    most = max(found.steps, key=lambda step: abs((step.cycles_per_run.b or 0) - (step.cycles_per_run.a or 0)))
    assert f"Of steps, {most.family}" in page.inner_text(".where")
    assert "fullest tile" not in page.inner_text(".where"), "it is as full"


def test_one_recording_has_nothing_to_compare(open_page: OpenPage) -> None:
    page = open_page(report_of(two_stages()), "compare")
    assert page.inner_text(".absent") == "One recording only: tilestep report html A B compares two."
    assert page.locator("nav a[data-view=compare]").count() == 0


def test_equal_recordings_have_no_difference(open_page: OpenPage) -> None:
    page = open_page((report_of(two_stages()), report_of(two_stages())), "compare")
    assert page.inner_text(".whole").startswith("Both take the same emulated time: A ")
    assert page.locator(".where, .grows, .shrinks").count() == 0
    assert "No cycle and no byte differs." in text(page)
    assert "One recording only" not in text(page)
    assert rows(page, "programs that differ") == rows(page, "steps that differ") == []


@pytest.mark.slow
def test_each_side_has_the_times_of_its_own_clock(open_page: OpenPage) -> None:
    a, b = report_of(two_stages(trips=6), clock_hz=2e6), report_of(two_stages(trips=5))
    both, own = open_page((a, b), "findings", side="b"), open_page(b, "findings")
    for view in (each for each in VIEWS if each != "compare"):
        go(both, view, side="b")
        go(own, view)
        assert text(both) == text(own), view
    header = both.locator("header .recording").all_inner_texts()
    alone = [open_page(report, "findings").inner_text("header .recording").split(" emulated")[0].split()[-2:] for report in (a, b)]
    assert [each.split(" emulated")[0].split()[-2:] for each in header] == alone
