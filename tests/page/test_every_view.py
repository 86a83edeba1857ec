"""What holds for every view, whatever was recorded: it answers its question, without a fault that a program can find.

Views and recordings are fixtures of the module, so that the tests of one view follow each other on one open page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.page.pages import VIEWS, Watched, fragment, go, text, wait_for
from tests.recordings import HOSTILE
from tilestep.report.page.assets import asset, script

SCRIPT = script()
RECORDINGS = {
    "plain": ("mnist_plain",),
    "runtime": ("mnist_classifier",),
    "pipeline": ("pipeline",),
    "popart": ("popart_pipeline",),
    "hostile": ("hostile",),
    "empty": ("empty",),
    "out_of_memory": ("out_of_memory",),
    "host_only": ("host_only",),
    "two": ("mnist_plain", "pipeline"),
}
SHOWN = [(name, view) for name, paths in RECORDINGS.items() for view in VIEWS if view != "compare" or len(paths) == 2]
CLOSELY = ("pipeline", "hostile", "empty", "two")  # those that the long checks look at; at the others in `make test-all`
looked_at_closely = pytest.mark.parametrize(
    "shown",
    [pytest.param(each, id="-".join(each), marks=() if each[0] in CLOSELY else (pytest.mark.slow,)) for each in SHOWN],
    indirect=True,
)
IN_DARK = ("two",)  # other colours on the same elements
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ODD = """() => ({
    ran: window.PWNED ?? null,
    elements: [...document.querySelectorAll("img, iframe, object, embed, link, base, form, a[href^='javascript']")]
        .map((each) => each.tagName),
    scripts: [...document.scripts].map((each) => each.type)
        .filter((type) => !["module", "application/json", "application/gzip;base64"].includes(type)),
    listeners: [...document.querySelectorAll("*")].flatMap((each) => [...each.attributes].map(({ name }) => name))
        .filter((name) => name.startsWith("on")),
})"""
UNEXPLAINED = r"""() => [...document.querySelectorAll("#main [data-value]")]
    .filter((each) => each.textContent.trim())
    .filter(({ dataset }) => !Number.isFinite(Number(dataset.value))
        || !/^([^.\d]+: )?\u2212?[\d,.e+\u2212]+( [^.]+)?\. \S.{8,}/su.test(dataset.tip ?? ""))
    .map((each) => `${each.textContent} | ${each.dataset.tip} | in ${each.closest("[aria-label]")?.ariaLabel}`)"""
LOOSE = """() => [...document.querySelectorAll("#main canvas")]
    .filter((each) => each.ariaHidden !== "true" && each.parentElement.tagName !== "FIGURE").length"""
WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.parentElement.closest(".scroller"))
    .map((each) => `${each.tagName}.${each.className}: ${Math.round(each.getBoundingClientRect().right)} px`).slice(0, 8)"""
BESIDE_THE_SHEET = """() => [...document.querySelectorAll("#main, #main .scroller, #main td, #main p")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1
        || (each.matches(".scroller") && each.scrollHeight > each.clientHeight + 1))
    .map((each) => `${each.tagName}.${each.className} ${each.ariaLabel ?? ""}: ${each.textContent.slice(0, 80)}`).slice(0, 8)"""
UNREACHED = """() => {
    const wanted = [...document.querySelectorAll("#main .value[data-value], #main dfn, #main figure > canvas")]
        .filter((each) => each.checkVisibility());
    const right = { key: "ArrowRight", bubbles: true, cancelable: true };
    const reached = new Set();
    for (const stop of wanted.filter((each) => each.tabIndex === 0)) {
        stop.focus({ preventScroll: true });
        for (let here = null; here !== document.activeElement; ) {
            reached.add(here = document.activeElement);
            if (!here.matches("canvas")) here.dispatchEvent(new KeyboardEvent("keydown", right));
        }
    }
    return wanted.filter((each) => !reached.has(each)).map((each) => each.outerHTML.slice(0, 120));
}"""  # by Tab, and by arrow keys where one stop has several
MANY = "tbody tr:nth-child(n+8), [role=row]:nth-child(n+20), .tree-row:nth-child(n+20)"  # rows that are like those before
FIGURES = "#main figure > canvas"


@dataclass(frozen=True, kw_only=True)
class Open:
    """A page that shows a view of some recordings."""

    recording: str
    view: str
    page: Page
    watched: Watched


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Iterator[dict[str, Watched]]:
    """Open pages, by the name of what they show."""
    opened: dict[str, Watched] = {}
    yield opened
    for watched in opened.values():
        watched.page.context.close()


@pytest.fixture(scope="module", params=SHOWN, ids="-".join)
def shown(request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Watched], page_file: Any) -> Open:
    recording, view = request.param
    if recording not in pages:
        paths: tuple[Path, ...] = tuple(request.getfixturevalue(name) for name in RECORDINGS[recording])
        address = page_file(paths).as_uri()
        pages[recording] = Watched(browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light"), address)
        pages[recording].page.goto(address + fragment(view, {}))
    watched = pages[recording]
    watched.problems.clear()
    go(watched.page, view)
    return Open(recording=recording, view=view, page=watched.page, watched=watched)


@cache
def question_of(view: str) -> str:
    """The question, as the view's file declares it."""
    (found,) = re.findall(r'^  question: "(.+)",$', asset(f"views/{view.replace('-', '_')}.js"), re.MULTILINE)
    return found


def test_it_opens_with_its_question_and_without_a_fault(shown: Open) -> None:
    page = shown.page
    heading, question, *_ = [line for line in text(page).splitlines() if line.strip()]
    assert heading == page.inner_text("nav a[aria-current]")
    assert question == question_of(shown.view)
    assert page.query_selector_all(".alert") == []
    assert shown.watched.problems == []


def test_no_text_of_a_recording_became_more_than_text(shown: Open) -> None:
    found = shown.page.evaluate(ODD)
    assert found == {"ran": None, "elements": [], "scripts": [], "listeners": []}


def test_each_number_has_a_unit_and_a_source(shown: Open) -> None:
    wrong = shown.page.evaluate(UNEXPLAINED)
    assert sorted(set(wrong))[:10] == []


@looked_at_closely
def test_each_picture_is_there_as_a_table_too(shown: Open) -> None:
    page = shown.page
    for number, canvas in enumerate(page.query_selector_all(FIGURES)):
        assert canvas.get_attribute("aria-label"), "a picture without a name"
        figure = page.locator("#main figure", has=page.locator(":scope > canvas")).nth(number)
        button = figure.get_by_role("button", name=re.compile("table"))
        assert button.inner_text() == "Show as table"
        button.click()
        assert button.get_attribute("aria-expanded") == "true"
        assert figure.locator(".as-table td").count() > 0, canvas.get_attribute("aria-label")
        button.click()
        assert not figure.locator(".as-table").is_visible()
    loose = page.evaluate(LOOSE)
    assert loose == 0, "a canvas outside of a figure"


@looked_at_closely
def test_the_keyboard_reaches_all_and_is_never_caught(shown: Open) -> None:
    page = shown.page
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    caught = page.evaluate("() => [...document.querySelectorAll('[tabindex]')].filter((each) => each.tabIndex > 0).length")
    assert caught == 0, "an order of its own for the Tab key"
    page.focus("body .skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for canvas in page.query_selector_all(FIGURES):
        assert canvas.evaluate("(each) => { each.focus({ preventScroll: true }); return document.activeElement === each; }")
        page.keyboard.press("Tab")
        assert not canvas.evaluate("(each) => document.activeElement === each"), "the Tab key does not leave a picture"
        page.keyboard.press("Shift+Tab")
        assert canvas.evaluate("(each) => document.activeElement === each"), "nor return to it"
    assert page.evaluate(UNREACHED) == []
    assert shown.watched.problems == []


def faults(page: Page, rules: dict[str, Any]) -> list[str]:
    """What axe-core finds: rule, element, and what is wrong."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.evaluate(
        "async ([rules, most]) => (await axe.run({ include: [['html']], exclude: [[most]] }, rules)).violations", [rules, MANY]
    )
    return [
        f"{rule['id']}: {node['html'][:160]}: {node['failureSummary'].replace(chr(10), ' ')[:300]}"
        for rule in found
        for node in rule["nodes"]
    ]


@looked_at_closely
def test_it_is_accessible(shown: Open) -> None:
    assert faults(shown.page, {"runOnly": TAGS, "resultTypes": ["violations"]})[:10] == []
    if shown.recording in IN_DARK:
        shown.page.emulate_media(color_scheme="dark")
        try:
            assert faults(shown.page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]})[:10] == []
        finally:
            shown.page.emulate_media(color_scheme="light")


def test_a_narrow_window_needs_no_scrolling_sideways(shown: Open) -> None:
    shown.page.set_viewport_size({"width": 700, "height": 900})
    try:
        wide = shown.page.evaluate(WIDE)
        assert wide == []
    finally:
        shown.page.set_viewport_size({"width": 1400, "height": 900})


def test_it_can_be_printed(shown: Open) -> None:
    shown.page.emulate_media(media="print")
    shown.page.set_viewport_size({"width": 1000, "height": 900})  # a sheet
    try:
        assert shown.page.evaluate(BESIDE_THE_SHEET) == []
        assert shown.page.is_visible("#main h1")
        assert not shown.page.is_visible("nav")
        assert shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        shown.page.emulate_media(media="screen")
        shown.page.set_viewport_size({"width": 1400, "height": 900})


KEYS = sorted({*re.findall(r'\b(?:get|number)\("(\w+)"', SCRIPT), "valuea", "valueb", "update_a", "update_b"})
ODD_STATES = (
    *("1e308", "-1", "NaN", "9007199254740993", "0_0", "-5_1e400", "a-1", "%zz", "[", "*", "x" * 3000, "constructor"),
    *("__proto__", "-Infinity", "9" * 400, f"0-{'9' * 400}", f"0_{'9' * 400}", f"a{'9' * 400}", "%00", "ab", "0.5", "-0"),
)


def test_what_nobody_has_linked_to_falls_back(browser: Browser, page_file: Any, hostile: Path, pipeline: Path) -> None:
    """Every part of the state has values that make no sense, in every view, each part another one."""
    address = page_file((pipeline, hostile)).as_uri()
    page = browser.new_page()
    watched = Watched(page, address)
    for turn in range(2):
        for place, view in enumerate(VIEWS):
            odd = {key: ODD_STATES[(place * 5 + number) % len(ODD_STATES)] if turn else "constructor" for number, key in enumerate(KEYS)}
            written = "&".join(f"{key}={value}" for key, value in odd.items())  # as they are, so that escapes are bad ones
            page.goto(f"{address}#{view}?{written}")
            wait_for(page, view)
            assert (page.query_selector_all(".alert"), watched.problems) == ([], []), written
            assert "NaN" not in text(page), written
    for name in ("", "__proto__", "constructor", "%E0%A4%A", "x" * 5000, "memory%00", "?", "#"):
        page.goto(f"{address}#{name}?program=__proto__")
        wait_for(page, VIEWS[0])
    assert watched.problems == []
    page.context.close()


def test_hostile_names_are_shown_as_they_are(browser: Browser, page_file: Any, hostile: Path) -> None:
    page = browser.new_page()
    page.goto(page_file((hostile,)).as_uri() + fragment(VIEWS[0], {}))
    wait_for(page, VIEWS[0])
    said = ""
    for view in VIEWS[:-1]:
        go(page, view)
        said += page.evaluate("document.getElementById('main').textContent")
    page.context.close()
    assert [each for each in HOSTILE[:3] if each not in said] == []
