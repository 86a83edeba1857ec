"""View Liveness: curves and lists are the reader's, and the URL keeps what is chosen."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.page.pages import address, rows, values
from tests.unit.figures.reader.recorded import liveness, report_of, two_stages
from tilestep.figures.reader import Report
from tilestep.figures.reader.programs.memory import MemoryReport

CANVAS = "canvas[aria-label*='at each step']"


def one() -> Report:
    return report_of(two_stages(), detail=liveness())


def table(page: Page) -> list[list[Any]]:
    """The picture's table."""
    page.get_by_role("button", name="Show as table").first.click()
    return rows(page, "memory at each step")


def same_curve(found: list[list[Any]], memory: MemoryReport, tile: int | None) -> None:
    always, others = (column.tolist() for column in memory.over_time(tile))
    assert [row[0] for row in found] == list(range(len(always)))
    assert [row[1] for row in found] == [step.name for step in memory.liveness]
    assert [row[2] for row in found] == always
    assert [row[3] for row in found] == others
    assert [row[4] for row in found] == [one + other for one, other in zip(always, others, strict=True)]


@pytest.mark.slow
def test_the_curve_of_the_fullest_tile_and_of_all_tiles_is_the_readers(open_page: Any) -> None:
    report = one()
    memory = report.compilation.main.memory
    same_curve(table(open_page(report, "liveness")), memory, memory.peak.tile)
    same_curve(table(open_page(report, "liveness", tile=14)), memory, 14)
    same_curve(table(open_page(report, "liveness", on="all")), memory, None)


def test_the_head_names_the_peak(open_page: Any) -> None:
    report = one()
    memory = report.compilation.main.memory
    page = open_page(report, "liveness")
    found = [each["value"] for each in values(page, ".fullest")]
    assert found == [memory.peak.total_bytes, report.target.bytes_per_tile, memory.peak.total_bytes / report.target.bytes_per_tile]
    assert f"step {memory.peak.tick} of {len(memory.liveness)}, {memory.liveness[memory.peak.tick].name}" in page.inner_text(".fullest")
    page.locator("#main figure > canvas").first.focus()
    page.keyboard.press("ArrowLeft")
    assert "% of what there is; always live: " in page.inner_text("#main figure .live")
    page.keyboard.press("End")
    page.locator("#main figure > canvas").first.click(position={"x": 2, "y": 100})  # beside the picture there is no step
    assert address(page) == f"#liveness?tick={len(memory.liveness) - 1}"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "CANVAS"
    label = page.locator(CANVAS).get_attribute("aria-label")
    assert label is not None
    assert "Keys: left and right" in label


def test_a_recording_without_detail_says_why(open_page: Any) -> None:
    page = open_page(report_of(two_stages()), "liveness")
    assert "its memory was not recorded in detail" in page.inner_text("#main")
    assert page.locator(CANVAS).count() == 0
