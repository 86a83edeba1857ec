#!/usr/bin/env python3
"""Makes the pictures of a report's page, and the pages that the documentation shows live, from the examples.

    scripts/report_pictures.py           records the examples, and writes docs/pictures/report/ and docs/_extra/reports/
    scripts/report_pictures.py --check   records them, and says which live page is of other cycles or of another page's code

Needs the packages of the extra `dev`, and Chromium for the pictures.
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
from tilestep.report.page import page_html  # noqa: E402
from tilestep.report.reader import open_report  # noqa: E402

PICTURES = ROOT / "docs" / "pictures" / "report"
PAGES = ROOT / "docs" / "_extra" / "reports"
LIVE = ("pipeline_transformer", "bert_pod")
EXAMPLES = ("mnist_plain", *LIVE)
SHOTS: tuple[tuple[str, str, str, dict[str, str | int], int, str], ...] = (  # file, example, view, state, height, colours
    ("what-to-do", "mnist_plain", "findings", {}, 640, "light"),
    ("source", "mnist_plain", "source", {}, 640, "light"),
    ("memory", "bert_pod", "memory", {}, 900, "light"),
    ("execution", "pipeline_transformer", "execution", {}, 760, "light"),
    ("pipeline", "pipeline_transformer", "pipeline", {}, 760, "light"),
    ("what-if", "mnist_plain", "what-if", {}, 560, "dark"),
)
WIDTH = 1200


def recorded(folder: Path, example: str) -> Path:
    """The recording of an example, made now."""
    command = (sys.executable, "-m", "tilestep", "run", "--report", str(folder / example), str(ROOT / "examples" / f"{example}.py"))
    subprocess.run(command, check=True, capture_output=True)
    return folder / example


def live(recording: Path) -> str:
    """The page of a recording."""
    return page_html(open_report(recording), labels=(recording.name, ""))


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
    """Returns 1 if a live page is out of date and --check was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as name:
        texts = {example: live(recorded(Path(name), example)) for example in (LIVE if check else EXAMPLES)}
        if check:
            old = [example for example in LIVE if (PAGES / f"{example}.html").read_text(encoding="utf-8") != texts[example]]
            for example in old:
                print(f"docs/_extra/reports/{example}.html is not what its example gives: run scripts/report_pictures.py", file=sys.stderr)
            return 1 if old else 0
        PAGES.mkdir(parents=True, exist_ok=True)
        files = {example: (PAGES if example in LIVE else Path(name)) / f"{example}.html" for example in EXAMPLES}
        for example, file in files.items():
            file.write_text(texts[example], encoding="utf-8")
        draw(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
