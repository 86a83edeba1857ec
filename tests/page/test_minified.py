"""The page as a wheel writes it: its script and its style minified, and what its policy allows."""

from pathlib import Path
from typing import Any

import minify
import pytest
from playwright.sync_api import Browser, Page

from tests.page.conftest import OpenPage
from tests.page.pages import VIEWS, Watched, fragment, go, text, wait_for
from tilestep.figures.reader import open_report
from tilestep.views.page.assets import script, style
from tilestep.views.page.document import page_html, policy_hash

MOST_BYTES = 330_000  # of the page of a trivial run


def test_the_minified_page_is_small_and_has_the_words_of_the_whole_one(
    mnist_plain: Path, browser: Browser, open_page: OpenPage, tmp_path: Path
) -> None:
    small = whole = page_html(open_report(mnist_plain))
    for kind, part in (("application/javascript", script()), ("text/css", style())):
        shorter = minify.string(kind, part)
        assert small.count(part) == small.count(policy_hash(part)) == 1
        small = small.replace(part, shorter).replace(policy_hash(part), policy_hash(shorter))
    assert len(small.encode()) < MOST_BYTES < len(whole.encode())
    file = tmp_path / "page.html"
    file.write_text(small, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
    watched = Watched(page, file.as_uri())
    page.goto(file.as_uri())
    said = [words_of(page)]
    page.close()
    said.append(words_of(open_page(mnist_plain, VIEWS[0])))
    assert said[0] == said[1]
    assert watched.problems == []


def words_of(page: Page) -> list[str]:
    """What the first views say, whose code the others share."""
    found: list[str] = []
    for view in VIEWS[:4]:
        go(page, view)
        assert page.query_selector_all(".alert") == [], view
        found.append(text(page))
    return found


ADD = "document.body.insertAdjacentHTML('beforeend', %r);"
SCRIPT = "const made = document.createElement('script'); %s document.body.append(made);"
TRIES = {
    "an inline script": SCRIPT % "made.textContent = 'window.PWNED = 1';",
    "a script from outside": SCRIPT % "made.src = 'http://example.invalid/x.js';",
    "a listener in an attribute": ADD % '<p onclick="window.PWNED = 1" id=try>x</p>' + " document.getElementById('try').click();",
    "a picture from outside": ADD % '<img src="http://example.invalid/x.png">',
    "a style": ADD % "<style>body { display: none }</style>",
    "a frame": ADD % '<iframe src="http://example.invalid/"></iframe>',
    "text as code": "setTimeout(() => new Function('window.PWNED = 1')());",
    "a request": "fetch('http://example.invalid/').catch(() => {});",
}


@pytest.fixture
def page(browser: Browser, page_file: Any, empty: Path) -> Any:
    opened = browser.new_page()
    opened.goto(page_file((empty,)).as_uri() + fragment(VIEWS[0], {}))
    wait_for(opened, VIEWS[0])
    yield opened
    opened.context.close()


def test_the_policy_refuses_what_a_text_could_become(page: Page) -> None:
    asked: list[str] = []
    page.on("requestfinished", lambda request: asked.append(request.url))
    for name, attempt in TRIES.items():
        # What runs here comes from the debugger, which no policy binds; what it makes is the page's own.
        violated = page.evaluate(
            f"""() => new Promise((done) => {{
                document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), {{ once: true }});
                {attempt}
            }})"""
        )
        assert violated, name
        assert page.evaluate("window.PWNED ?? null") is None, name
        assert page.is_visible("#main h1"), name
        assert asked == [], name
