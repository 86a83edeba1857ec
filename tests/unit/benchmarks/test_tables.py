"""The accuracy page and its plot say what the record says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.measured.bars import MAIN, TRAINING, Group
from benchmarks.measured.tables import PAGES, with_tables
from benchmarks.plot import PICTURES, main, parity

ROOT = Path(__file__).parents[3]
PAGE = (
    "# Accuracy\n<!-- families -->\nold\n<!-- end -->\nbetween\n<!-- outside -->\n<!-- end -->\n<!-- sureness -->\n<!-- end -->\n"
    "<!-- rows -->\n<!-- end -->\n<!-- left out -->\n<!-- end -->\nlast\n"
)
ALL = ("families", "outside", "sureness", "rows", "left out")


def entry(name: str, ratio: float, **more: Any) -> dict[str, Any]:
    fields = {"id": name, "family": name[:2], "workload": "a < b", "status": "judged", "reason": "", "unit": "s", "verdicts": []}
    fields |= {"group": MAIN.name, "machine": "c600", "shares": {"matmul": 1.0}}
    return fields | {"measured": 2000.0, "predicted": 2000 * ratio, "ratio": ratio} | more


RECORD: dict[str, Any] = {
    "commit": "abc",
    "versions": {"tilestep": "1", "jax": "2"},
    "groups": {
        "operations and inference": {
            "judged": 2,
            "median_absolute_error": 0.05,
            "p90_absolute_error": 0.1,
            "mean_error_by_family": {"AB": 0.03},
            "verdicts": 3,
            "wrong_verdicts": ["AB1 bs 1"],
        },
        "training": {
            "judged": 1,
            "median_absolute_error": 0.2,
            "p90_absolute_error": 0.2,
            "mean_error_by_family": {"TR": 0.2},
            "verdicts": 0,
            "wrong_verdicts": [],
        },
        "networks outside the fit": {
            "judged": 1,
            "median_absolute_error": 0.1,
            "p90_absolute_error": 0.1,
            "mean_error_by_family": {"YO": -0.1},
            "verdicts": 2,
            "wrong_verdicts": ["YO1 bs 2"],
        },
    },
    "sureness": {"all rows": {"rows": 4, "held": 0.75, "half_width": 0.07, "score": 0.32, "score_of_one_width": 0.35}},
    "rows": [
        entry("AB1", 1.1, verdicts=[{"what": "bs 1", "measured": True, "predicted": False}]),
        entry("AB2", 0.96),
        entry("TR1", 1.2, fullest={"share": 0.791, "program": "f", "largest": {}}),
        entry(
            "YO1",
            0.9,
            group="networks outside the fit",
            verdicts=[
                {"what": "bs 1", "measured": True, "predicted": True, "fullness": 0.714},
                {"what": "bs 2", "measured": False, "predicted": True},
            ],
        ),
        entry("CD1", 3.0, status="reported", reason="nobody knows"),
        entry("EF1", 3.0, status="left out", reason="too long"),
        entry("GH1", 3.0, status="left out", reason="no such machine"),
        entry("EF2", 3.0, status="left out", reason="too long"),
    ],
}


def test_tables_stand_between_their_markers() -> None:
    text = with_tables(PAGE, RECORD, ALL)
    assert "old" not in text
    assert "| AB: AB | 2 | 7.0% | +10.0% | +3.0% |" in text
    assert "| **all: operations and inference** | 2 | **5.0%** | 90th percentile **10.0%** | fits or not: 2 of 3 right |" in text
    assert "| TR: training, on Bow | 1 | 20.0% | +20.0% | +20.0% |\n| **all: training** | 1 |" in text
    assert "| 1.20 | fullest tile 79% |" in text
    assert "| AB1 | a < b | 2,200 | 2,000 s | 1.10 | verdict of bs 1 is wrong |" in text
    assert "| YO1 | a < b | 1,800 | 2,000 s | -10.0% | bs 1 fits: right (71%), bs 2 does not fit: wrong |" in text
    assert "| **all** | 1 figures | median error **10.0%** | 90th percentile **10.0%** | | fits or not: 1 of 2 right |" in text
    assert "| all rows | 4 | 75% | 7.0% | 0.320 | 0.350 |" in text
    assert "YO: " not in text
    assert "nobody knows" in text
    assert "| EF1 EF2 | too long |\n| GH1 | no such machine |" in text
    assert text.count("EF1") == 1
    assert with_tables(text, RECORD, ALL) == text


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="<!-- rows -->"):
        with_tables(PAGE.replace("<!-- rows -->", ""), RECORD, ALL)


@pytest.mark.parametrize(("group", "names", "percent"), [(MAIN, ["AB1", "AB2"], "5.0%"), (TRAINING, ["TR1"], "20.0%")])
def test_a_plot_shows_every_judged_row_of_its_groups_and_says_its_finding(group: Group, names: list[str], percent: str) -> None:
    drawing = ElementTree.fromstring(parity(RECORD, [group]))
    titles = [title.text or "" for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.split(":")[0] for title in titles] == names
    assert f"{group.name.capitalize()}: half of {len(names)} published figures within {percent}" in drawing.get("aria-label", "")


def test_a_plot_of_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps(RECORD | {"rows": []}), encoding="utf-8")
    assert main(["--record", str(record), "--docs", str(tmp_path)]) == 2
    assert "no row of the record is judged" in capsys.readouterr().err


def test_the_pages_are_drawn_from_the_record() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "accuracy.json").read_text(encoding="utf-8"))
    for name, tables in PAGES.items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert with_tables(page, record, tables) == page
    for name, groups in PICTURES.items():
        assert (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8") == parity(record, groups)
    assert re.fullmatch(r"[0-9a-f]{7,}\+?", record["commit"])
