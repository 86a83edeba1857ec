"""Pages of the documentation name their kind below their title, and pages that people read from top to bottom are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import ROOT

KINDS = {"how-to": "how-to", "tutorials": "tutorial"}  # by folder of docs/
PAGES = [path for folder in KINDS for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
MOST_WORDS = 1800  # code, tables and HTML don't count


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def named_kind(markdown: str) -> str | None:
    """The kind that stands directly below the title; None if none does."""
    found = re.match(r"# .+\n\n\*Kind: ([a-z-]+)\.\*\n\n", markdown)
    return found and found[1]


def num_words(markdown: str) -> int:
    prose = re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return len(prose.split())


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_names_its_kind(path: Path) -> None:
    assert named_kind(path.read_text(encoding="utf-8")) == KINDS[path.parent.name]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_is_short(path: Path) -> None:
    assert num_words(path.read_text(encoding="utf-8")) <= MOST_WORDS


def test_a_kind_elsewhere_is_none() -> None:
    assert named_kind("# A page\n\n*Kind: how-to.*\n\nText.\n") == "how-to"
    assert named_kind("# A page\n\nText.\n\n*Kind: how-to.*\n\n") is None


def test_code_and_tables_do_not_count() -> None:
    assert num_words("# A title\n\n```python\na = 1\n```\n\n| a | b |\n|---|---|\n\nThree more words.\n") == 6
