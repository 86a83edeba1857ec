"""The page elsewhere: in a notebook's frame, which cannot be reached from it, and in Firefox."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page

import tilestep
from tests.page.bidi import firefox
from tests.page.pages import VIEWS, fragment
from tilestep.views.page import page_html
from tilestep.views.page.frame import PageFrame

NOTEBOOK = '<!doctype html><title>notebook</title><p id="secret">a secret</p>'
PROBE = """() => {
    const tried = {};
    const attempt = (name, act) => { try { tried[name] = String(act()); } catch (error) { tried[name] = error.name; } };
    attempt("document", () => parent.document.getElementById("secret").textContent);
    attempt("location", () => parent.location.href);
    attempt("storage", () => localStorage.length);
    attempt("cookie", () => document.cookie);
    attempt("popup", () => window.open("about:blank"));
    return tried;
}"""


def shown(browser: Browser, path: Path) -> tuple[Page, Frame, list[str]]:
    """A notebook with a cell that shows the page of a recording; its frame; and what was logged or asked for."""
    page, problems = browser.new_page(viewport={"width": 1200, "height": 900}), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url))
    page.set_content(NOTEBOOK + PageFrame(html=page_html(tilestep.open_report(path)), height=720)._repr_html_())
    [_, frame] = page.frames
    frame.wait_for_function("() => document.documentElement.dataset.ready === 'findings'")
    return page, frame, problems


@pytest.mark.slow
def test_views_can_be_reached(browser: Browser, mnist_plain: Path) -> None:
    page, frame, problems = shown(browser, mnist_plain)
    address = page.url
    for name in VIEWS[:-1:3]:
        frame.click(f"nav a[data-view={name}]")
        frame.wait_for_function("name => document.documentElement.dataset.ready === name", arg=name)
        assert frame.get_attribute("nav a[aria-current]", "data-view") == name
        assert frame.locator(".alert").count() == 0
    frame.select_option("#theme", "dark")
    frame.wait_for_function("() => document.documentElement.dataset.ready")
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
    frame.click("nav a[data-view=findings]")
    frame.wait_for_function("() => document.documentElement.dataset.ready === 'findings'")
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"  # the state is kept beside the address
    frame.click(".findings a >> nth=0")
    frame.wait_for_function("() => document.documentElement.dataset.ready === 'source'")
    assert frame.locator(".code-row[aria-selected=true]").count() == 1
    assert (page.url, len(page.frames)) == (address, 2)
    assert [each for each in problems if not each.startswith("about:")] == []
    page.context.close()


def test_it_reaches_nothing_of_the_notebook(browser: Browser, mnist_plain: Path) -> None:
    page, frame, _ = shown(browser, mnist_plain)
    tried = frame.evaluate(PROBE)
    assert {name: tried[name] for name in ("document", "location", "storage", "cookie")} == dict.fromkeys(
        ("document", "location", "storage", "cookie"), "SecurityError"
    )
    assert tried["popup"] == "null"
    assert page.title() == "notebook"
    page.context.close()


NAMES = ("firefox-esr", "firefox")


@pytest.mark.slow
@pytest.mark.browser
def test_every_view_opens_in_firefox(page_file: Any, mnist_classifier: Path, pipeline: Path, host_only: Path, tmp_path: Path) -> None:
    program = os.environ.get("FIREFOX") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: install firefox-esr, or name one by FIREFOX=... (looked for {', '.join(NAMES)})")
    pages = ((mnist_classifier, pipeline), (host_only,))
    with firefox(program, tmp_path / "profile") as session:
        for paths in pages:
            session.open(page_file(paths).as_uri() + fragment(VIEWS[0], {}))
            for view in VIEWS if len(paths) == 2 else VIEWS[:-1]:
                session.value(f"void (location.hash = '{view}')")
                session.wait_for(f"document.documentElement.dataset.ready === '{view}'")
                assert session.value("document.querySelectorAll('.alert').length") == 0, view
                assert session.value("document.querySelector('#main h1').textContent")
        assert [entry for entry in session.logged if entry[0] in {"error", "warn"}] == []
        asked = {url.partition("#")[0] for url in session.asked if url.startswith(("http", "ws", "file"))}
        assert asked <= {page_file(paths).as_uri() for paths in pages}  # it tells nothing of files
