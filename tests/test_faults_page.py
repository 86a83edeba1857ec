"""docs/reference/faults.md names tests that there are, and texts that users are told."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.processes import ROOT

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


@pytest.mark.parametrize("part", ["was not saved, alas", "has waited for Godot"])
def test_a_text_that_nobody_says_would_be_found(part: str) -> None:
    assert part not in texts()
