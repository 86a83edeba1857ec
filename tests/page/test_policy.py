"""What the page's policy refuses: were a text to become markup, nothing would come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.page.pages import VIEWS, fragment, wait_for

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
