"""View Program: the tree of a program, its keys, and the figures of its nodes."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import OpenPage
from tests.page.pages import text, values
from tests.unit.figures.reader.recorded import everything, recorded, report_of, run_of, step, two_stages
from tests.unit.sim.toy import program
from tilestep.figures.reader import Report
from tilestep.figures.rows import step_rows


def items(page: Page) -> list[dict[str, Any]]:
    """The rows of the tree that are drawn."""
    return page.evaluate(
        """[...document.querySelectorAll("[role=treeitem]")].map((row) => ({
            level: Number(row.ariaLevel),
            expanded: row.ariaExpanded,
            words: row.querySelector(".label").textContent,
            cycles: Number(row.children[1].dataset.value ?? 0),
        }))"""
    )


def test_the_way_to_the_most_costly_step_is_open(open_page: OpenPage) -> None:
    called, counts = everything()
    page = open_page(report_of(called, runs=2, counts=counts), "program")
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_have_count(1)
    shown = items(page)
    assert shown[0]["words"].strip().startswith("▾program everything")
    assert shown[0]["level"] == 1
    assert [item["level"] for item in shown[:2]] == [1, 2]


@pytest.mark.slow
def test_cycles_of_a_run_are_the_readers(open_page: OpenPage) -> None:
    called, counts = everything()
    report = report_of(called, runs=2, counts=counts)
    page = open_page(report, "program")
    page.get_by_role("button", name="Open all").click()
    total = sum(row.cycles for row in step_rows(report))
    assert [each["value"] for each in values(page, ".answer")] == [total / 2]
    assert page.inner_text(".answer").startswith("The ")
    assert " steps of a run take " in page.inner_text(".answer")
    assert "on 2 IPUs. The program ran 2 times." in page.inner_text(".answer")
    shown = items(page)
    assert shown[0]["cycles"] == total / 2
    assert sum(item["cycles"] for item in shown if item["expanded"] is None) == total / 2


@pytest.mark.slow
def test_keys_follow_the_pattern_of_trees(open_page: OpenPage) -> None:
    called, counts = everything()
    page = open_page(report_of(called, runs=1, counts=counts), "program")
    page.get_by_role("button", name="Close all").click()
    page.locator("[role=treeitem]").first.click()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "outer" in page.evaluate("document.activeElement.textContent") or "while" in page.evaluate("document.activeElement.textContent")
    assert page.evaluate("document.activeElement.ariaExpanded") == "false"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ariaExpanded") == "true"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ariaLevel") == "3"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.ariaLevel") == "2"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.ariaExpanded") == "false"
    page.keyboard.press("a")  # typeahead: the all-reduce
    assert "all-reduce" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert "groups of IPUs" in page.inner_text(".node-panel")
    assert "{0, 1}" in page.inner_text(".node-panel")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert {"to the host", "from the host"} <= set(page.locator(".node-panel th").all_inner_texts())


def test_a_line_without_room_keeps_its_number(open_page: OpenPage, out_of_memory: Path) -> None:
    page = open_page(out_of_memory, "program", width=1366)
    link = page.locator(".tree-row .line > a").last
    places = link.evaluate(
        """(link) => {
            link.textContent = `folder/of/a/program/${link.textContent}`;
            const range = document.createRange();
            range.setStart(link.firstChild, link.textContent.lastIndexOf(":"));
            range.setEnd(link.firstChild, link.textContent.length);
            const [cell, number] = [link.parentElement.getBoundingClientRect(), range.getBoundingClientRect()];
            return [cell.left, number.left, number.right, cell.right, link.getBoundingClientRect().left];
        }"""
    )
    assert places[:4] == sorted(places[:4])
    assert places[4] < places[0]  # it has no room


def test_a_program_without_a_tree_says_so(open_page: OpenPage, empty: Path) -> None:
    assert "no programs" in text(open_page(empty, "program"))


@pytest.mark.parametrize("view", ["program", "operations"])
def test_a_program_that_never_ran_shows_one_run(open_page: OpenPage, out_of_memory: Path, view: str) -> None:
    page = open_page(out_of_memory, view)
    assert "one run" in text(page) or "no programs" in text(page)


def test_program_of_largest_cost_comes_first(open_page: OpenPage) -> None:
    small, large = program(step("s", "", 1), name="small"), two_stages()
    host = run_of(large)
    host.run(small)
    page = open_page(Report(recorded(host, [large, small])), "program")
    assert page.locator(".choice option").all_inner_texts()[0].startswith("two_stages")
