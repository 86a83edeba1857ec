"""The documents name the views of a report's page as the page does."""

from __future__ import annotations

import re

from tests.processes import ROOT
from tests.view_names import VIEWS
from tilestep.views.page.assets import asset

TITLE_AND_QUESTION = re.compile(r'^  title: "(.+)",\n  question: "(.+)",$', re.MULTILINE)


def test_every_view_is_listed_with_its_question() -> None:
    views = [TITLE_AND_QUESTION.findall(asset(f"views/{name}.js"))[0] for name in VIEWS]
    page = (ROOT / "docs" / "how-to" / "reports.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (.+) \| (.+\?) \|$", page, re.MULTILINE) == views
