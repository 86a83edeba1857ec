#!/usr/bin/env python3
"""Takes pictures of a report's page, to look at what a change did to it.

scripts/look_at_page.py report.html looks/                       each view
scripts/look_at_page.py report.html looks/ memory execution      some
scripts/look_at_page.py report.html looks/ memory --dark --sight deuteranopia --state '{"step": 12}' --keys "Tab Tab Enter"

What the page logs is printed, and is a defect.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.page.conftest import ARGUMENTS, browser_program  # noqa: E402
from tests.page.pages import VIEWS, Watched, fragment, wait_for  # noqa: E402

SIGHTS = ("none", "protanopia", "deuteranopia", "tritanopia", "achromatopsia")


def main() -> int:
    """Writes the pictures. Returns 1 if the page logged something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path, help="the pictures are FOLDER/VIEW.png")
    parser.add_argument("views", nargs="*", default=VIEWS, metavar="VIEW", help=f"of {', '.join(VIEWS)}")
    parser.add_argument("--state", type=json.loads, default={}, help="what a link to the view holds, as JSON")
    parser.add_argument("--keys", default="", help="keys to press, with spaces between them")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--sight", choices=SIGHTS, default="none", help="colours as somebody with this deficiency sees them")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=900, help="0: the whole view")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_program(), args=list(ARGUMENTS))
        size = {"width": args.width, "height": args.height or 900}
        page = browser.new_page(viewport=size, color_scheme="dark" if args.dark else "light")
        address = args.page.resolve().as_uri()
        watched = Watched(page, address)
        page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", {"type": args.sight})
        for view in args.views:
            page.goto("about:blank")
            page.goto(address + fragment(view, args.state))
            wait_for(page, view)
            for key in args.keys.split():
                page.keyboard.press(key)
            page.wait_for_timeout(300)  # canvases are painted in the next frame
            page.screenshot(path=args.folder / f"{view}.png", full_page=not args.height)
        browser.close()
    print(*watched.problems, sep="\n", end="\n" if watched.problems else "")
    return 1 if watched.problems else 0


if __name__ == "__main__":
    sys.exit(main())
