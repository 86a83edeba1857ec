"""What a sweep says of its rows: which is the smallest and the fastest, what is missing, and its picture."""

import csv
import io
import json
from pathlib import Path

import pytest

from tilestep.cli.sweep.setting import Measured
from tilestep.cli.sweep.settings import SweepPoint
from tilestep.cli.sweep.sweep_table import SweepRow, answers, answers_text, csv_text, json_text, plot


def row(name: str, ipus: int, step_s: float | None, *, outcome: str = "fits", full: float = 0.5, items: int | None = None) -> SweepRow:
    found = Measured(outcome=outcome, num_ipus=ipus, needed_bytes=round(full * 1000), available_bytes=1000, step_s=step_s, whole_s=10.0)
    return SweepRow(setting=SweepPoint(values=(("x", name),)), command=f"run {name}", found=found, items=items)


ROWS = [
    row("small", 1, 4.0, items=8),  # 2 items a second: 2 for each IPU
    row("fast", 4, 1.0, items=16),  # 16: 4 for each
    row("large", 16, 1.0, items=16),
    row("over", 1, 0.1, outcome="does not fit", full=1.3, items=16),
    SweepRow(setting=SweepPoint(values=(("x", "broken"),)), command="run broken", found=Measured(outcome="failed", error="ValueError: x")),
]


def test_the_smallest_the_fastest_and_the_fastest_per_ipu() -> None:
    assert [(each.question, each.row.command) for each in answers(ROWS)] == [
        ("the smallest that fits", "run small"),
        ("the fastest that fits", "run fast"),
        ("the fastest per IPU", "run fast"),
    ]
    assert ROWS[3].found.text == "does not fit: 1.3x"


def test_what_likely_fits_goes_behind_what_surely_fits_and_is_as_fast() -> None:
    likely, sure = row("likely", 4, 1.0, outcome="likely fits", items=100), row("sure", 4, 1.0, items=99)
    assert {each.row.command for each in answers([likely, sure])} == {"run sure"}
    faster = row("likely", 4, 0.5, outcome="likely fits", items=99)
    assert answers([faster, sure])[1].row is faster
    assert "the fastest that fits, likely (4 IPUs" in answers_text([faster, sure])


def test_where_nothing_fits_the_nearest_is_named() -> None:
    assert "nothing fits; the nearest needs 1.3x" in answers_text([ROWS[3], row("far", 1, 1.0, outcome="does not fit", full=2.0), ROWS[4]])
    assert "nothing fits, because nothing ran" in answers_text([ROWS[4]])
    assert "nothing fits" not in answers_text(ROWS)


def test_a_missing_warm_time_is_said() -> None:
    once = [row("once", 1, None), row("twice", 2, 1.0)]
    assert "its steps are too few, or each loads its program anew. So 'fastest' is of whole runs: let the program" in answers_text(once)
    counted = answers_text([row("once", 1, None, items=8), row("many", 2, 1.0, items=16)])
    assert "So 'fastest' is of whole runs, and --items does nothing: let the program do more steps" in counted
    assert counted.count("10.0 s in all") == 3  # what they are ranked by, though one has items a second
    assert "'fastest'" not in answers_text([row("a", 1, 1.0, items=1)])


def test_json_and_csv_have_each_row() -> None:
    document = json.loads(json_text(ROWS))
    assert [each["items_per_s"] for each in document["rows"]] == [2.0, 16.0, 16.0, 160.0, None]
    assert document["answers"] == {"the smallest that fits": 0, "the fastest that fits": 1, "the fastest per IPU": 1}
    read = list(csv.DictReader(io.StringIO(csv_text(ROWS))))
    assert [tuple(each[name] for name in ("x", "outcome", "error")) for each in read[3:]] == [
        ("over", "does not fit", ""),
        ("broken", "failed", "ValueError: x"),
    ]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot(ROWS, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    plot(ROWS, tmp_path / "sweep.svg")
    text = (tmp_path / "sweep.svg").read_text()
    assert "1 of 5 settings have no time" in text
    assert ">fast<" in text
    plot(ROWS[4:], tmp_path / "empty.png")
