"""The page of PopART's options has the code's tables."""

from __future__ import annotations

import pytest

from scripts.popart_options import PAGE, TABLES, begin, end, rewritten, table


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
