"""Pages in a browser, and what tests ask of them."""

from typing import Any
from urllib.parse import quote, urlencode

from playwright.sync_api import ConsoleMessage, Error, Page, Request

from tests.view_names import VIEWS as FILES

VIEWS = tuple(name.replace("_", "-") for name in FILES)  # as URLs name them
READY_WALL_MS = 60_000
SETTLED_MS = 300  # more than a page waits for a further change, before it acts on one


class Watched:
    """Listens for what no page may do.

    Attributes:
        page: the page.
        problems: each error, each warning and each request for something that is not the page, in words.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.problems: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", self._raised)
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.problems.append(f"console {message.type}: {message.text}")

    def _raised(self, error: Error) -> None:
        self.problems.append(f"error: {error}")

    def _asked(self, request: Request) -> None:
        if request.url.partition("#")[0] != self.address:
            self.problems.append(f"request: {request.url[:200]}")


def fragment(view: str, state: dict[str, Any]) -> str:
    """The part of a URL that names a view and its state."""
    return f"#{quote(view)}{'?' if state else ''}{urlencode(state)}"


def wait_for(page: Page, view: str) -> None:
    """Waits until a view stands, and has done what it left for the next frame."""
    page.wait_for_function(
        "view => document.documentElement.dataset.ready === view && new Promise((done) => requestAnimationFrame(() => done(true)))",
        arg=view,
        timeout=READY_WALL_MS,
    )


def go(page: Page, view: str, **state: Any) -> None:
    """Goes to a view of an open page, and waits until it stands."""
    page.evaluate(
        "hash => { if (location.hash !== hash) { delete document.documentElement.dataset.ready; location.hash = hash; } }",
        fragment(view, state),
    )
    wait_for(page, view)


def settled(page: Page) -> None:
    """Waits until a page has done what it puts off for a moment after a change. It is the page's timer, behind those that it has set."""
    page.evaluate("wait => new Promise((done) => setTimeout(done, wait))", SETTLED_MS)


def hold_time(page: Page) -> None:
    """Timers that a page has set end now, and no later one does before `page.clock.resume()`. The page's clock has to be installed."""
    page.clock.pause_at(page.evaluate("Date.now()") + 10_000)


def address(page: Page) -> str:
    """What stands in the URL behind the page's file, as the page has it: the browser's own word of it comes later."""
    return page.evaluate("location.hash")


def rows(page: Page, label: str, nth: int = 0) -> list[list[Any]]:
    """All rows of the nth table of a label, also those that are not drawn: exact values, None for unknown ones."""
    return page.evaluate(
        "([label, nth]) => [...document.querySelectorAll('.scroller')].filter((each) => each.ariaLabel === label)[nth].allRows()",
        [label, nth],
    )


def tables(page: Page) -> list[str]:
    """The labels of the view's tables, in order."""
    return page.evaluate("[...document.querySelectorAll('#main .scroller')].map((each) => each.ariaLabel)")


def values(page: Page, within: str = "#main") -> list[dict[str, Any]]:
    """All numbers that stand outside of tables: text, exact value, unit and tip."""
    return page.evaluate(
        """within => [...document.querySelectorAll(`${within} .value[data-value]`)].map((each) => ({
            text: each.textContent, value: Number(each.dataset.value), unit: each.dataset.unit, tip: each.dataset.tip }))""",
        within,
    )


def text(page: Page) -> str:
    """What the view says."""
    return page.inner_text("#main")
