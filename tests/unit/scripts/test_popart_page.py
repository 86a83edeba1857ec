"""The table of PopART's own tests is made of records."""

from __future__ import annotations

from typing import Any

import pytest

from scripts import popart_page


def row(function: str, group: str, *, passed: bool, asserts: bool = True, one_device: bool = True) -> dict[str, Any]:
    return {"function": function, "group": group, "passed": passed, "asserts": asserts, "one_device": one_device}


RECORD = {
    "functions": 1200,
    "black_box": 5,
    "results": [
        row("a", "operators", passed=True),
        row("b", "pipelining", passed=False, one_device=False),
        row("c", "pipelining", passed=True),
        row("d", "builder", passed=False, asserts=False),
    ],
}


def test_each_group_has_a_row_of_functions_that_assert_something() -> None:
    lines = popart_page.results(RECORD).splitlines()
    assert lines[0] == "Of 1,200 functions 5 are black boxes. 4 of these can be judged: 2 pass (50.0 %)."
    assert lines[1] == "3 of them assert something: 2 pass (66.7 %)."
    assert [line for line in lines if line.startswith("| ")][1:] == [
        "| operators | 1 of 1 | 1 of 1 |  |",
        "| pipelining | 1 of 2 | 1 of 1 | 0 of 1 |",
        "| all | 2 of 3 | 2 of 2 | 0 of 1 |",
    ]
    assert lines[-1] == "Of pipelining, virtual graphs, devices, accumulation, replicas and recomputation, 50.0 % pass."


def test_the_last_record_of_a_function_counts() -> None:
    again = {**RECORD, "results": [row("b", "pipelining", passed=True, one_device=False)]}
    assert "| pipelining | 2 of 2 | 1 of 1 | 1 of 1 |" in popart_page.results(popart_page.merged([RECORD, again]))
    with pytest.raises(ValueError, match="the records are of 2 checkouts"):
        popart_page.merged([RECORD, {**RECORD, "functions": 3}])


def test_only_what_is_between_the_marks_changes() -> None:
    text = f"before\n{popart_page.BEGIN}old\n{popart_page.END}after\n"
    new = popart_page.page(text, RECORD)
    assert new == f"before\n{popart_page.BEGIN}\n{popart_page.results(RECORD)}\n{popart_page.END}after\n"
    assert popart_page.page(new, RECORD) == new
    with pytest.raises(ValueError, match="the page has no lines"):
        popart_page.page("nothing", RECORD)


def test_the_page_has_a_place_for_them() -> None:
    text = popart_page.PAGE.read_text(encoding="utf-8")
    assert popart_page.BEGIN in text.partition(popart_page.END)[0]
