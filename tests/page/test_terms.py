"""Words that a page explains: those of the glossary."""

import re
from pathlib import Path

from tests.page.conftest import OpenPage
from tests.unit.figures.reader.recorded import report_of, two_stages
from tilestep.views.page.terms import TERMS

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"


def glossary() -> dict[str, str]:
    """The meaning of each word: a row may have several, as 'warm-up, ramp-down' and 'matrix unit (AMP)'."""
    found: dict[str, str] = {}
    for words, meaning in re.findall(r"^\| (.+?) \| (.+?) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE):
        for word in re.split(r", | \(|\)", words):
            found.setdefault(word, re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", meaning).replace("`", ""))
    return found


def test_the_pages_words_mean_what_the_glossary_says() -> None:
    known = glossary()
    assert dict(TERMS) == {word: known.get(word) for word in TERMS}


def test_a_word_is_explained_where_a_view_says_it_first(open_page: OpenPage) -> None:
    page = open_page(report_of(two_stages()), "operations")
    marked = page.locator("#main dfn")
    words = marked.evaluate_all("all => all.map((each) => each.dataset.term)")
    assert len(words) == len(set(words)) > 1, "each word once"
    for term, tip in zip(words, marked.evaluate_all("all => all.map((each) => each.dataset.tip)"), strict=True):
        assert tip.lower().startswith(f"{term}: ")
        assert tip.partition(": ")[2] in TERMS.values()
    marked.first.focus()
    assert page.inner_text("#tip").partition("\n")[0] == marked.first.get_attribute("data-tip")
    assert marked.first.get_attribute("aria-describedby") == "tip"
    page.get_by_label("grouped by").select_option("family")  # what is said anew is explained too
    assert page.locator("#main .verdict dfn[data-term=exchange]").count() == 1
