"""The tables of PopART's tests and options are made of records."""

from typing import Any

import pytest

from scripts import popart_page
from scripts.popart_options import PAGE, TABLES, begin, end, rewritten, table


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


def test_the_page_has_a_place_for_them() -> None:
    text = popart_page.PAGE.read_text(encoding="utf-8")
    assert popart_page.BEGIN in text.partition(popart_page.END)[0]


def test_the_page_has_todays_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run scripts/popart_options.py"


def test_a_page_without_a_place_for_a_table_is_an_error() -> None:
    text = "# Options\n"
    for name in TABLES:
        with pytest.raises(ValueError, match=f"lacks the lines <!-- {name}"):
            rewritten(text)
        text += f"{begin(name)}old\n{end(name)}"
    assert rewritten(text) == "# Options\n" + "".join(f"{begin(name)}\n{table(name)}\n{end(name)}" for name in TABLES)
