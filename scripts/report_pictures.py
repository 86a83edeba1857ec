#!/usr/bin/env python3
"""Makes the pictures of a report's page, or the pages that the documentation shows live, from the examples.

scripts/report_pictures.py               records the examples, and writes docs/pictures/report/: needs Chromium
scripts/report_pictures.py --pages DIR   records them, and writes the live pages into DIR, as `make docs` does
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.page.conftest import ARGUMENTS  # noqa: E402
from tests.page.pages import fragment, wait_for  # noqa: E402

PICTURES = ROOT / "docs" / "pictures" / "report"
LIVE = ("pipeline_transformer", "bert_pod")
EXAMPLES = ("mnist_plain", *LIVE)
SHOTS: tuple[tuple[str, str, str, dict[str, str | int], int, str], ...] = (  # file, example, view, state, height, colours
    ("what-to-do", "mnist_plain", "findings", {}, 640, "light"),
    ("source", "mnist_plain", "source", {}, 640, "light"),
    ("memory", "bert_pod", "memory", {}, 900, "light"),
    ("execution", "pipeline_transformer", "execution", {}, 760, "light"),
    ("pipeline", "pipeline_transformer", "pipeline", {}, 760, "light"),
)
WIDTH = 1200


def page_of(example: str, folder: Path) -> Path:
    """The page of a recording of an example, made now in a folder."""
    command = (sys.executable, "-m", "tilestep", "run", "--report", str(folder / example), str(ROOT / "examples" / f"{example}.py"))
    subprocess.run(command, check=True, capture_output=True)
    return folder / example / "report.html"


def draw(pages: dict[str, Path]) -> None:
    """Writes the pictures. Args: pages: file of the page of each example."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("scripts/report_pictures.py: no Chromium is on the PATH")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for file, example, view, state, height, colours in SHOTS:
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="dark" if colours == "dark" else "light")
            page.goto(pages[example].as_uri() + fragment(view, dict(state)))
            wait_for(page, view)
            page.wait_for_timeout(300)  # canvases are painted in the next frame
            page.screenshot(path=PICTURES / f"{file}.png")
            page.close()
        browser.close()


def main() -> int:
    """Records the examples, and writes what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, metavar="DIR", help="write the live pages there, and no pictures")
    pages: Path | None = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if pages is None else pages
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, Path] = {}
        for example in EXAMPLES if pages is None else LIVE:
            files[example] = folder / f"{example}.html"
            shutil.copyfile(page_of(example, Path(name)), files[example])
        if pages is None:
            draw(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
