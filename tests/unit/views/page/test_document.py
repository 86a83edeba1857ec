"""The page as a document: its policy, its parts, and texts that stay texts."""

import gc
import json
import re
from html import unescape

import pytest

from tests.unit.figures.reader.recorded import report_of, two_stages
from tests.unit.views.page.test_block import column, unpacked
from tilestep.views.page import page_html
from tilestep.views.page.sections.registry import ORIGINS, SECTIONS

HOSTILE = "</script><script>alert(1)</script><!--\u2028\u202e\"'&\ud800"


def parts(text: str) -> dict[str, str]:
    """The data of a page by the ids of their elements."""
    return dict(re.findall(r'<script type="[^"]+" id="([^"]+)">(.*?)</script>', text, re.DOTALL))


def policy(text: str) -> dict[str, str]:
    """The page's policy by directive."""
    (found,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    return dict(each.split(" ", 1) for each in unescape(found).split("; "))


@pytest.fixture(scope="module")
def page() -> str:
    return page_html(report_of(two_stages(), runs=2))


def test_nothing_in_it_names_another_place(page: str) -> None:
    outside = re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert re.findall(r"(?:src|href|url)\s*[=(]", outside) == []
    assert "//" not in outside


def test_it_has_a_block_for_each_section_that_found_something(page: str) -> None:
    report = report_of(two_stages(), runs=2)
    expected = {f"data-a-{name}" for name, section in SECTIONS.items() if section(report) is not None}
    assert set(parts(page)) == {"page", *expected}
    assert unpacked(parts(page)["data-a-head"])[0]["json"]["emulated_cycles"] == report.execution.total_cycles.total


def test_two_recordings_have_blocks_of_their_own() -> None:
    text = page_html(report_of(two_stages()), report_of(two_stages(trips=7)), labels=("before", "after"))
    names = set(parts(text))
    assert {"data-a-head", "data-b-head"} <= names
    assert json.loads(parts(text)["page"])["labels"] == {"a": "before", "b": "after"}


def test_a_label_is_text() -> None:
    text = page_html(report_of(two_stages()), labels=(HOSTILE, ""))
    text.encode()  # a file can hold it
    assert json.loads(parts(text)["page"])["labels"]["a"] == HOSTILE
    assert "alert(1)</script>" not in text
    (title,) = re.findall(r"<title>(.*?) · tilestep</title>", text)
    assert unescape(title) == HOSTILE.replace("\ud800", "?")
    assert text.count("</script>") == len(parts(text)) + 1


def test_origins_are_sentences() -> None:
    for key, sentence in ORIGINS.items():
        assert re.fullmatch(r"[a-z_]+\.[a-z_.]+", key), key
        assert sentence[0].isupper(), key
        assert sentence.endswith("."), key


def test_equal_recordings_give_equal_pages(page: str) -> None:
    assert page_html(report_of(two_stages(), runs=2)) == page


@pytest.mark.parametrize(("threshold", "within"), [(700, 100_000), (0, 0), (500_000, 500_000)])
def test_garbage_is_collected_seldom_while_a_page_is_made(threshold: int, within: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def fail(*_: object, **__: object) -> None:
        found.append(gc.get_threshold()[0])
        raise ZeroDivisionError

    monkeypatch.setattr("tilestep.views.page.document._fitting", fail)
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        with pytest.raises(ZeroDivisionError):
            page_html(report_of(two_stages()))
        assert (found, gc.get_threshold()[0]) == ([within], threshold)
    finally:
        gc.set_threshold(*before)


def test_a_page_that_would_be_too_large_leaves_events_out(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(two_stages(), runs=400)
    whole = page_html(report)
    shown = column(parts(whole)["data-a-execution"], "run")
    monkeypatch.setattr("tilestep.views.page.document.PAGE_BYTES", len(whole) - len(parts(whole)["data-a-execution"]) // 2)
    shorter = page_html(report)
    left = column(parts(shorter)["data-a-execution"], "run")
    assert len(shorter) < len(whole)
    assert 0 < len(left) < len(shown)
    assert {name: text for name, text in parts(shorter).items() if name != "data-a-execution"} == {
        name: text for name, text in parts(whole).items() if name != "data-a-execution"
    }
