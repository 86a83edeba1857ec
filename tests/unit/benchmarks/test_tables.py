"""The accuracy page and its plot say what the record says."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.measured.bars import MAIN, TRAINING, Group
from benchmarks.measured.tables import PAGES, with_tables
from benchmarks.plot import PICTURES, main, parity

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "accuracy.json").read_text(encoding="utf-8"))


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="<!-- rows -->"):
        with_tables("# Accuracy\n", RECORD, ("rows",))


@pytest.mark.parametrize("group", [MAIN, TRAINING])
def test_a_plot_shows_every_judged_row_of_its_groups_and_says_its_finding(group: Group) -> None:
    drawing = ElementTree.fromstring(parity(RECORD, [group]))
    titles = [title.text or "" for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    names = [row["id"] for row in RECORD["rows"] if row["status"] == "judged" and row["group"] == group.name and row["ratio"]]
    assert sorted(title.split(":")[0] for title in titles) == sorted(names)
    percent = f"{RECORD['groups'][group.name]['median_absolute_error']:.1%}"
    assert f"{group.name.capitalize()}: half of {len(names)} published figures within {percent}" in drawing.get("aria-label", "")


def test_a_plot_of_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps(RECORD | {"rows": []}), encoding="utf-8")
    assert main(["--record", str(record), "--docs", str(tmp_path)]) == 2
    assert "no row of the record is judged" in capsys.readouterr().err


def test_the_pages_are_drawn_from_the_record() -> None:
    for name, tables in PAGES.items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert with_tables(page, RECORD, tables) == page
    for name, groups in PICTURES.items():
        assert (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8") == parity(RECORD, groups)
    assert re.fullmatch(r"[0-9a-f]{7,}\+?", RECORD["commit"])
