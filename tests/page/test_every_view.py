"""What holds for every view, whatever was recorded: it answers its question, without a fault that a program can find.

A test goes through all views of one open page, and gathers what is wrong.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.page.conftest import OpenPage
from tests.page.pages import VIEWS, go, text, wait_for
from tests.page.tabs import DRAWN_ANEW
from tests.recordings import HOSTILE
from tilestep.views.page.assets import asset, script

SCRIPT = script()
RECORDINGS = {
    "hostile": ("hostile",),
    "plain": ("mnist_plain",),
    "runtime": ("mnist_classifier",),
    "pipeline": ("pipeline",),
    "popart": ("popart_pipeline",),
    "empty": ("empty",),
    "out_of_memory": ("out_of_memory",),
    "host_only": ("host_only",),
    "two": ("mnist_plain", "pipeline"),
}
Faults = Iterator[tuple[bool, object]]  # whether something is right, and what is meant
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


@cache
def question_of(view: str) -> str:
    """The question, as the view's file declares it."""
    (found,) = re.findall(r'^  question: "(.+)",$', asset(f"views/{view.replace('-', '_')}.js"), re.MULTILINE)
    return found


def opened(page: Page, view: str) -> Faults:
    """It has its question, no error, and no text that became more than text; each number has a unit and a source."""
    heading, question, *_ = [line for line in text(page).splitlines() if line.strip()]
    yield heading == page.inner_text("nav a[aria-current]"), heading
    yield question == question_of(view), question
    yield page.query_selector_all(".alert") == [], "an alert"
    found = page.evaluate(ODD)
    yield found == {"ran": None, "elements": [], "scripts": [], "listeners": []}, found
    wrong = page.evaluate(UNEXPLAINED)
    yield wrong == [], sorted(set(wrong))[:10]


def pictures(page: Page) -> Faults:
    """Each is there as a table, too."""
    for number, canvas in enumerate(page.query_selector_all(FIGURES)):
        label = canvas.get_attribute("aria-label")
        yield bool(label), "a picture without a name"
        figure = page.locator("#main figure", has=page.locator(":scope > canvas")).nth(number)
        button = figure.get_by_role("button", name=re.compile("table"))
        yield button.inner_text() == "Show as table", label
        button.click()
        yield button.get_attribute("aria-expanded") == "true", label
        yield figure.locator(".as-table td").count() > 0, label
        button.click()
        yield not figure.locator(".as-table").is_visible(), label
    yield page.evaluate(LOOSE) == 0, "a canvas outside of a figure"


def keys(page: Page) -> Faults:
    """The keyboard reaches all, and is never caught."""
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    caught = page.evaluate("() => [...document.querySelectorAll('[tabindex]')].filter((each) => each.tabIndex > 0).length")
    yield caught == 0, "an order of its own for the Tab key"
    page.focus("body .skip")
    page.keyboard.press("Enter")
    yield page.evaluate("document.activeElement.id") == "main", "the skip link does not lead to the view"
    for canvas in page.query_selector_all(FIGURES):
        yield canvas.evaluate("(each) => { each.focus({ preventScroll: true }); return document.activeElement === each; }"), "no focus"
        page.keyboard.press("Tab")
        yield not canvas.evaluate("(each) => document.activeElement === each"), "the Tab key does not leave a picture"
        page.keyboard.press("Shift+Tab")
        yield canvas.evaluate("(each) => document.activeElement === each"), "nor return to it"
    unreached = page.evaluate(UNREACHED)
    yield unreached == [], unreached[:10]


def accessible(page: Page) -> Faults:
    found = against(page, {"runOnly": TAGS, "resultTypes": ["violations"]})
    yield found == [], found[:10]


def accessible_but_for_colors(page: Page) -> Faults:
    """Colours take most of its time; tests/page/test_looks.py has their contrasts."""
    found = against(page, {"runOnly": TAGS, "rules": {"color-contrast": {"enabled": False}}, "resultTypes": ["violations"]})
    yield found == [], found[:10]


def in_dark(page: Page) -> Faults:
    """Other colours on the same elements."""
    page.emulate_media(color_scheme="dark")
    found = against(page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]})
    page.emulate_media(color_scheme="light")
    yield found == [], found[:10]


def narrow(page: Page) -> Faults:
    """It needs no scrolling sideways."""
    page.set_viewport_size({"width": 700, "height": 900})
    wide = page.evaluate(WIDE)
    yield wide == [], wide


def printed(page: Page) -> Faults:
    """It can be printed on a sheet."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1000, "height": 900})
    beside = page.evaluate(BESIDE_THE_SHEET)
    yield beside == [], beside
    yield page.is_visible("#main h1"), "no heading"
    yield not page.is_visible("nav"), "the navigation"
    yield page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)", "not on white"
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1400, "height": 900})


def against(page: Page, rules: dict[str, Any]) -> list[str]:
    """What axe-core finds against a page: rule, element, and what is wrong."""
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


ALL = (pictures, keys, accessible, in_dark, narrow, printed)
CLOSELY = {  # in each run; all of them at all recordings in `make test-all`
    "hostile": (narrow, printed),  # long words
    "popart": (accessible_but_for_colors,),
    "host_only": (pictures, keys),
    "two": (pictures, keys, narrow, printed),
}


def looked_at(page: Page, recording: str, checks: Sequence[Callable[..., Faults]]) -> list[str]:
    """What is wrong in the views of an open page, each by its view and its check. Hostile names have to be shown as they are."""
    found: list[str] = []
    said = ""
    for view in VIEWS if len(RECORDINGS[recording]) == 2 else VIEWS[:-1]:
        go(page, view)
        said += page.evaluate("document.getElementById('main').textContent")
        for check in checks:
            faults = check(page, view) if check is opened else check(page)
            found += [f"{view}, {check.__name__}: {what}" for right, what in faults if not right]
    return found + [f"no view has {name}" for name in HOSTILE[:3] if recording == "hostile" and name not in said]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "recording", [pytest.param(name, marks=pytest.mark.slow) if name in ("plain", "runtime", "pipeline") else name for name in RECORDINGS]
)  # the page of two has the others side by side, and a loop of the runtime is one program more
def test_every_view_of_a_recording(recording: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    page = open_page([request.getfixturevalue(name) for name in RECORDINGS[recording]], VIEWS[0])
    assert looked_at(page, recording, (opened, *CLOSELY.get(recording, ()))) == []


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_view_of_a_recording_closely(recording: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    page = open_page([request.getfixturevalue(name) for name in RECORDINGS[recording]], VIEWS[0])
    assert looked_at(page, recording, ALL) == []


KEYS = sorted({*re.findall(r'\b(?:get|number)\("(\w+)"', SCRIPT)})
ODD_STATES = (
    *("1e308", "-1", "NaN", "9007199254740993", "0_0", "-5_1e400", "a-1", "%zz", "[", "*", "x" * 3000, "constructor"),
    *("__proto__", "-Infinity", "9" * 400, f"0-{'9' * 400}", f"0_{'9' * 400}", f"a{'9' * 400}", "%00", "ab", "0.5", "-0"),
)


@pytest.mark.slow
def test_what_nobody_has_linked_to_falls_back(open_page: OpenPage, mnist_plain: Path, pipeline: Path) -> None:
    """Every part of the state has values that make no sense, in every view, each part another one."""
    page = open_page((mnist_plain, pipeline), VIEWS[0])
    for turn in range(2):
        for place, view in enumerate(VIEWS):
            odd = {key: ODD_STATES[(place * 5 + number) % len(ODD_STATES)] if turn else "constructor" for number, key in enumerate(KEYS)}
            written = "&".join(f"{key}={value}" for key, value in odd.items())  # as they are, so that escapes are bad ones
            page.evaluate(DRAWN_ANEW, f"#{view}?{written}")
            wait_for(page, view)
            assert page.query_selector_all(".alert") == [], written
            assert "NaN" not in text(page), written
    for name in ("", "__proto__", "constructor", "%E0%A4%A", "x" * 5000, "memory%00", "?", "#"):
        page.evaluate(DRAWN_ANEW, f"#{name}?program=__proto__")
        wait_for(page, "compare")
