"""Tabs of a browser that tests use one after the other: a new one, which compiles the page's script anew, takes two seconds of a core."""

from typing import Any, Literal

from playwright.sync_api import Browser

from tests.page.pages import READY_WALL_MS, Watched, fragment, wait_for

MOST_TABS = 3  # that nobody holds
MEDIA = """["print", "screen"].filter((each) => matchMedia(each).matches)
    .concat(["light", "dark"].filter((each) => matchMedia(`(prefers-color-scheme: ${each})`).matches))"""
DRAWN_ANEW = """hash => {
    document.activeElement?.blur();
    scrollTo(0, 0);
    delete document.documentElement.dataset.ready;
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
}"""


class Tabs:
    """Tabs of one context, each with a page. A test holds those that it has opened until it ends."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context()
        self.context.set_default_timeout(READY_WALL_MS)
        self._free: list[Watched] = []  # that was used last stands last
        self._held: list[Watched] = []

    def open(
        self, address: str, view: str, state: dict[str, Any], *, color_scheme: Literal["light", "dark"], width: int, height: int
    ) -> Watched:
        """A tab with a view of a page, which stands. A tab that has the page draws the view anew; another one loads the page."""
        known = [tab for tab in self._free if tab.address == address] or self._free[: len(self._free) == MOST_TABS]
        if known:
            self._free.remove(tab := known[-1])
        else:
            tab = Watched(self.context.new_page(), "")
        self._held.append(tab)
        tab.problems.clear()
        tab.page.mouse.move(0, 0)
        if tab.page.viewport_size != (size := {"width": width, "height": height}):  # else it would lay out the view before for nothing
            tab.page.set_viewport_size(size)
        if tab.page.evaluate(MEDIA) != ["screen", color_scheme]:
            tab.page.emulate_media(media="screen", color_scheme=color_scheme)
        if tab.address == address:
            tab.page.evaluate(DRAWN_ANEW, fragment(view, state))
        else:
            tab.address = address
            tab.page.goto(address + fragment(view, state))
        wait_for(tab.page, view)
        tab.page.keyboard.press("Escape")  # what gets the focus now shows it, as in a new tab
        return tab

    def release(self) -> list[str]:
        """The test has ended. Returns: what its pages have done that no page may do."""
        problems = [problem for tab in self._held for problem in tab.problems]
        self._free = [*self._free, *self._held]
        self._held = []
        for tab in self._free[:-MOST_TABS]:
            tab.page.close()
        self._free = self._free[-MOST_TABS:]
        return problems
