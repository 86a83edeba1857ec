"""The page on the form of recordings has the tables of the schema."""

import pytest

from scripts.recording_format import BEGIN, END, PAGE, rewritten, tables
from tilestep.recording.schema import TABLES, TEXTS


def test_the_page_has_todays_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run scripts/recording_format.py"


def test_every_column_and_every_text_has_a_row() -> None:
    made = tables()
    for table, columns in TABLES.items():
        for column in columns:
            assert made.count(f"| `{table}/{column}.npy` |") == 1
    for text in TEXTS:
        assert made.count(f"| `{text}.json` |") == 1


def test_a_page_without_a_place_for_the_tables_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the lines <!-- schema"):
        rewritten("# Recordings\n")
    assert rewritten(f"a\n{BEGIN}old\n{END}b\n") == f"a\n{BEGIN}\n{tables()}\n{END}b\n"
