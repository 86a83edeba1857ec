"""Pages that people read from top to bottom are short."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documents import documents
from tests.processes import ROOT

LOOKED_UP = (ROOT / "docs" / "reference", ROOT / "docs" / "glossary.md", ROOT / "CHANGELOG.md")
PAGES = [path for path in documents(ROOT) if not any(path.is_relative_to(place) for place in LOOKED_UP)]
MOST_WORDS = 1800  # code, tables and HTML don't count


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def num_words(markdown: str) -> int:
    prose = re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return len(prose.split())


def test_a_page_is_short() -> None:
    lengths = {name_of(path): num_words(path.read_text(encoding="utf-8")) for path in PAGES}
    assert {name: words for name, words in lengths.items() if words > MOST_WORDS} == {}


def test_no_page_has_both_sides_of_a_merge() -> None:
    marks = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
    assert marks.search("one\n<<<<<<< HEAD\ntwo\n")
    assert [name_of(path) for path in documents(ROOT) if marks.search(path.read_text(encoding="utf-8"))] == []


def test_pages_to_look_something_up_may_be_long() -> None:
    assert ROOT / "docs" / "explanation" / "accuracy.md" in PAGES
    assert ROOT / "docs" / "reference" / "cost-model.md" not in PAGES


def test_code_and_tables_do_not_count() -> None:
    assert num_words("# A title\n\n```python\na = 1\n```\n\n| a | b |\n|---|---|\n\nThree more words.\n") == 6
