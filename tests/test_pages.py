"""Pages that people read from top to bottom are short, and say what the code says."""

import re
from functools import cache
from pathlib import Path

from tests.documents import documents
from tests.processes import ROOT
from tests.view_names import VIEWS
from tilestep.views.page.assets import asset

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


TITLE_AND_QUESTION = re.compile(r'^  title: "(.+)",\n  question: "(.+)",$', re.MULTILINE)


def test_every_view_is_listed_with_its_question() -> None:
    views = [TITLE_AND_QUESTION.findall(asset(f"views/{name}.js"))[0] for name in VIEWS]
    page = (ROOT / "docs" / "how-to" / "reports.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (.+) \| (.+\?) \|$", page, re.MULTILINE) == views


PAGE = ROOT / "docs" / "reference" / "faults.md"
TEST = re.compile(r"tests/[\w/]+\.py(::\w+)?")
SAYING = ("train", "cli", "figures", "advice", "views")  # the folders whose texts the page has
NO_TEXT = re.compile(r"[\w.]+\(.*\)|\w+=\w+|os\._exit|kill -9|ipu|tilestep run")  # names of the program's side


def rows() -> list[list[str]]:
    """The cells of each table's rows."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def texts() -> str:
    """The source, where texts that stand on several lines are one."""
    source = ROOT / "src" / "tilestep"
    paths = (*source.glob("*.py"), *(path for folder in SAYING for path in (source / folder).rglob("*.py")), *source.rglob("ffi.c"))
    return "".join(re.sub(r"\"\s*\n\s*f?\"", "", path.read_text(encoding="utf-8")) for path in paths)


def test_each_fault_has_a_test_that_exists() -> None:
    faults = [row for row in rows() if row[-1] != "Test"]
    assert len(faults) > 40
    for row in faults:
        name = row[-1].strip("`")
        assert TEST.fullmatch(name), row
        file, _, function = name.partition("::")
        assert Path(ROOT / file).is_file(), name
        assert not function or f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_what_is_told_stands_in_the_source() -> None:
    """Between the values that stand for `…`."""
    told = [text for row in rows() if row[-1] != "Test" for text in re.findall(r"`([^`]+)`", row[1]) if not NO_TEXT.fullmatch(text)]
    assert len(told) > 20
    assert [part for text in told for part in text.split("…") if part.strip(" ,;:") and part not in texts()] == []
