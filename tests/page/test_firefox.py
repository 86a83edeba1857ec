"""Every view in a browser of another make."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.page.bidi import firefox
from tests.page.pages import VIEWS, fragment

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
