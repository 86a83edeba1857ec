"""A browser for the tests of this folder, pages in it, and recordings to show.

`open_page(recordings, view, **state)` opens a page, and fails the test afterwards if anything was logged or asked of the network.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import recordings
from tests.page.pages import READY_WALL_MS, Watched, fragment, wait_for
from tests.page.tabs import Tabs
from tilestep.figures.reader import Report, open_report
from tilestep.views.page import page_html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (  # root needs the first; the others keep the browser from the network
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Shown = Report | Path

expect.set_options(timeout=READY_WALL_MS)


class OpenPage(Protocol):
    """What the fixture `open_page` is."""

    def __call__(
        self,
        shown: Shown | Sequence[Shown],
        view: str,
        *,
        color_scheme: Literal["light", "dark"] = "light",
        width: int = 1400,
        height: int = 900,
        alone: bool = False,
        **state: Any,
    ) -> Page:
        """Opens the page of a recording, or of two.

        Args:
            shown: reports, or the files or folders of recordings.
            view: its name in the URL.
            color_scheme: what the user prefers.
            width, height: of the window, in CSS pixels.
            alone: whether it has a browser context to itself, whose clock can be held.
            state: what stands in the URL behind the view.
        """
        ...


def browser_program() -> str | None:
    """The file of the browser; None: there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that ask for the browser have the marker."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


# Of the package, not of the session: playwright keeps an event loop running in this thread, in which other tests start their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = browser_program()
    if program is None:
        reason = f"no browser: install chromium, or name one by CHROMIUM=... (looked for {', '.join(NAMES)})"
        pytest.fail(reason) if os.environ.get("PAGE_CHECKS") == "required" else pytest.skip(reason)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, one for all workers."""
    return recordings.shared_folder(tmp_path_factory)


@pytest.fixture(scope="session")
def mnist_plain(shared: Path) -> Path:
    """The folder of a recording: training in plain JAX."""
    return recordings.example("mnist_plain", shared)


@pytest.fixture(scope="session")
def mnist_classifier(shared: Path) -> Path:
    """The folder of a recording: training by the training runtime."""
    return recordings.example("mnist_classifier", shared)


@pytest.fixture(scope="session")
def pipeline(shared: Path) -> Path:
    """A recording of a small pipeline of three stages."""
    return recordings.recording("pipeline", shared)


@pytest.fixture(scope="session")
def popart_pipeline(shared: Path) -> Path:
    """A recording of a small pipeline of PopART."""
    return recordings.recording("popart_pipeline", shared)


@pytest.fixture(scope="session")
def empty(shared: Path) -> Path:
    """A recording of a program that ran nothing."""
    return recordings.recording("empty", shared)


@pytest.fixture(scope="session")
def out_of_memory(shared: Path) -> Path:
    """A recording of a program that did not fit, and did not run."""
    return recordings.recording("out_of_memory", shared)


@pytest.fixture(scope="session")
def host_only(shared: Path) -> Path:
    """A recording of what the host did, without an IPU."""
    return recordings.recording("host_only", shared)


@pytest.fixture(scope="session")
def hostile(shared: Path, mnist_plain: Path) -> Path:
    """The folder of a recording whose names try to be markup, scripts, or long."""
    return recordings.hostile(mnist_plain, shared)


@pytest.fixture(scope="session")
def page_file(shared: Path) -> Any:
    """Makes the file of a page of some recordings, each once: `page_file(shown) -> path`."""

    def made(shown: tuple[Shown, ...]) -> Path:
        def write(path: Path) -> None:
            path.write_text(page_html(*map(open_report, paths), labels=_labels(paths)), encoding="utf-8")

        paths = [each for each in shown if isinstance(each, Path)]
        if len(paths) == len(shown):
            return recordings.once(shared / f"page-{sha256(chr(10).join(map(str, paths)).encode()).hexdigest()[:16]}.html", write)
        text = page_html(*(open_report(each) if isinstance(each, Path) else each for each in shown))
        path = shared / f"page-{sha256(text.encode()).hexdigest()[:16]}-{os.getpid()}.html"  # equal recordings have one address
        path.write_text(text, encoding="utf-8")
        return path

    return made


def _labels(paths: Sequence[Path]) -> tuple[str, str]:
    names = [path.name if path.is_dir() else path.parent.name for path in paths]
    return names[0], names[-1]


@pytest.fixture(scope="package")
def tabs(browser: Browser) -> Iterator[Tabs]:
    made = Tabs(browser)
    yield made
    made.context.close()


@pytest.fixture
def open_page(browser: Browser, tabs: Tabs, page_file: Any) -> Iterator[OpenPage]:
    """Opens pages. When the test ends, nothing may have been logged, raised, or asked of the network."""
    apart: list[Watched] = []

    def opens(
        shown: Shown | Sequence[Shown],
        view: str,
        *,
        color_scheme: Literal["light", "dark"] = "light",
        width: int = 1400,
        height: int = 900,
        alone: bool = False,
        **state: Any,
    ) -> Page:
        address = page_file((shown,) if isinstance(shown, Report | Path) else tuple(shown)).as_uri()
        if not alone:
            return tabs.open(address, view, state, color_scheme=color_scheme, width=width, height=height).page
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=color_scheme)
        page.set_default_timeout(READY_WALL_MS)
        apart.append(Watched(page, address))
        page.goto(address + fragment(view, state))
        wait_for(page, view)
        return page

    yield opens
    problems = [*tabs.release(), *(problem for watched in apart for problem in watched.problems)]
    for watched in apart:
        watched.page.context.close()
    assert problems == []
