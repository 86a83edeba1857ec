"""View Pipeline: what it shows is what the recording says, by keys alone too."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import OpenPage
from tests.page.pages import address, rows, tables, text
from tests.unit.views.page.test_pipeline import ran
from tilestep.figures.reader import open_report
from tilestep.train.schedules import grouped
from tilestep.views.page.sections.head import head


def test_the_picture_is_that_of_the_schedule(open_page: OpenPage, pipeline: Path) -> None:
    page = open_page(pipeline, "pipeline")
    page.locator("#main figure").first.get_by_role("button", name="Show as table").click()
    (label,) = [each for each in tables(page) if each.startswith("schedule of")]
    drawn: dict[str, dict[int, str]] = {}
    for device, slot, task, *_ in rows(page, label):
        drawn.setdefault(device, {})[slot] = task.replace("FB", "F")
        if task.startswith("FB"):  # one program, in two slots
            drawn[device][slot + 1] = task.replace("FB", "B")
    shown = [" ".join(cells.get(slot, ".") for slot in range(17)).replace("U", ".").rstrip(" .") for cells in drawn.values()]
    assert shown == [" ".join(line.split("|")[1].split()).rstrip(" .") for line in grouped(3, 6).show().splitlines()[1:4]]


def test_forward_and_backward_apart_are_drawn_apart(open_page: OpenPage) -> None:
    page = open_page(ran(grouped(2, 4)), "pipeline")
    page.locator("#main figure").first.get_by_role("button", name="Show as table").click()
    (label,) = [each for each in tables(page) if each.startswith("schedule of")]
    assert {row[2] for row in rows(page, label)} == {*(f"{letter}{microbatch}" for letter in "FB" for microbatch in range(4)), "U"}
    assert "a program that is both" not in text(page)


@pytest.mark.slow
def test_an_update_without_events_shows_its_order_alone(open_page: OpenPage, pipeline: Path) -> None:
    page = open_page(pipeline, "pipeline", update=0)
    assert "only their order" in text(page)
    assert page.locator("#main figure > canvas").count() == 1
    page.locator("#main select").first.select_option("1")
    assert page.locator("#main figure > canvas").count() == 2
    assert "update=1" in address(page)


def test_popart_is_spoken_of_where_it_was_used(mnist_plain: Path, popart_pipeline: Path) -> None:
    assert head(open_report(popart_pipeline)).json["popart"]
    assert not head(open_report(mnist_plain)).json["popart"]


@pytest.mark.slow
def test_a_recording_without_stages_says_so(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "pipeline")
    assert "No run of this recording is of a pipeline's stage" in text(page)
    assert "PopART" not in text(page)
    entry = page.locator("nav a[data-view=pipeline]")
    assert "empty" in (entry.get_attribute("class") or "")
    assert (entry.get_attribute("data-tip") or "").startswith("No run of this recording")
    assert page.locator("nav a.empty").count() == 1
    assert page.locator("nav a[data-view=execution][data-tip]").count() == 0
    entry.hover()
    expect(page.locator("#tip")).to_have_class("settled")
    page.click("nav a[data-view=execution]")  # the tip is not over it
