"""The emulated figures of docs/how-to/performance.md are what its command gives today."""

from __future__ import annotations

import json

import pytest

from benchmarks.tips import MACHINE, PAGE, TIPS, shown, table, text_of, with_tables
from tests.in_turn import python
from tests.processes import ROOT

RECORD = ROOT / "benchmarks" / "results" / "tips.json"
QUICK = ["training", "looping", "types"]  # others compile larger programs for the CPU
CHANGED = "run pytest with --update-golden, and see what it changes"


@pytest.mark.parametrize("tips", [QUICK, pytest.param([], marks=pytest.mark.slow)], ids=["quick", "all"])
def test_the_record_has_todays_emulated_cycles(update_golden: bool, tips: list[str]) -> None:
    flags = ["--emulated", *(["--tips", *tips] if tips else [])]
    today = json.loads(python(f"from benchmarks.tips import main; main({flags})", strict=False, TILESTEP_MACHINE=MACHINE).stdout)
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    if update_golden:
        for tip, ways in today.items():
            for way, cycles in ways.items():
                record["tips"][tip]["ways"][way]["emulated_cycles"] = cycles
        RECORD.write_text(text_of(record), encoding="utf-8")
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    recorded = {
        tip: {way: kept["emulated_cycles"] for way, kept in entry["ways"].items()} for tip, entry in record["tips"].items() if tip in today
    }
    assert len(today) == len(tips or TIPS)
    assert recorded == today, CHANGED


def test_the_page_shows_the_record() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page, json.loads(RECORD.read_text(encoding="utf-8"))), CHANGED


def test_every_tip_has_its_place_in_the_page() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for tip in TIPS:
        with pytest.raises(ValueError, match=f"the page has no <!-- {tip.name} -->"):
            with_tables(PAGE.read_text(encoding="utf-8").replace(f"<!-- {tip.name} -->", ""), record)


def test_a_table_says_which_part_of_the_gain_a_way_brings() -> None:
    (tip,) = (tip for tip in TIPS if tip.name == "training")
    first, between, last = (way.name for way in tip.ways)
    cycles = {first: 1000, between: 360, last: 200}
    wall_s = {"median": 0.25, "iqr": 0.0, "n": 5}
    ways = {name: {"emulated_cycles": 1_850_000 * value, "wall_s": wall_s} for name, value in cycles.items()}
    *_, before, middle, after = table(tip, {"machine": "bow-2000", "tips": {"training": {"steps": 10, "ways": ways}}})
    assert before == f"| {first} | 100 ms | 250 ms | 0.0% |"
    assert middle == f"| {between} | 36 ms | 250 ms | 80.0% |"
    assert after == f"| {last} | 20 ms | 250 ms | 100.0% |"


def test_times_have_a_unit_and_three_figures() -> None:
    shown_times = [shown(seconds) for seconds in (0, 2e-9, 1.5e-5, 0.0213, 61.2)]
    assert shown_times == ["0", "2 ns", "15 µs", "21.3 ms", "61.2 s"]
