"""The documents name the views of a report's page as the page does."""

from __future__ import annotations

import re

from tests.processes import ROOT

VIEW = re.compile(r'^  title: "(.+)",\n  question: "(.+)",$', re.MULTILINE)


def test_reports_lists_every_view_with_its_question_in_the_order_of_the_page() -> None:
    folder = ROOT / "src" / "tilestep" / "report" / "assets" / "views"
    names = re.findall(r'from "\./(\w+)\.js"', (folder / "views.js").read_text(encoding="utf-8"))
    views = [VIEW.findall((folder / f"{name}.js").read_text(encoding="utf-8"))[0] for name in names]
    page = (ROOT / "docs" / "how-to" / "reports.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+\?) \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(views)
    listed = re.findall(r"^  (\w+),$", (folder / "views.js").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(rows) == len(names)
