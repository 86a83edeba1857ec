"""How sure predictions are follows from the record, and the intervals hold what was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measured.bars import MAIN, OUTSIDE
from benchmarks.measured.sureness import (
    ALL,
    PRIOR,
    Calibration,
    certain,
    derive,
    judged,
    left_out,
    shortfalls,
    tile_bounds,
)
from benchmarks.model_errors import RECORD, main
from tilestep.figures.intervals import UNSEEN, model_errors


def row(name: str, ratio: float, shares: dict[str, float], **more: Any) -> dict[str, Any]:
    fields = {"id": name, "family": name[:2], "group": MAIN.name, "status": "judged", "ratio": ratio, "shares": shares, "machine": "c600"}
    return fields | more


def test_a_kind_has_the_errors_of_the_rows_that_spend_time_on_it() -> None:
    many = [row(f"AA{k}", math.exp(0.02), {"matmul": 1.0}) for k in range(400)]
    found = derive([*many, row("BB1", math.exp(-0.3), {"reduce": 1.0})])
    assert found.kinds["matmul"] < 0.1 < found.kinds["reduce"]
    assert found.other > found.kinds["matmul"]


def test_a_kind_of_few_rows_is_drawn_towards_what_nobody_has_measured() -> None:
    half = {"matmul": 0.9, "reduce": 0.1}
    found = derive([row("AA1", 1.0, half), *(row(f"{chr(66 + k)}B1", 1.0, {"matmul": 1.0}) for k in range(20))])
    assert found.kinds["matmul"] < found.kinds["reduce"] < found.other == PRIOR


def test_eight_of_ten_rows_lie_within_their_interval() -> None:
    rows = [row(f"{chr(65 + k)}A1", math.exp(0.01 * k), {"matmul": 1.0}) for k in range(1, 11)]
    assert derive(rows).kinds["matmul"] == pytest.approx(0.085, abs=0.007)


def test_networks_outside_the_fit_are_less_sure_by_what_they_were_worse() -> None:
    fitted = [row(f"{chr(65 + k)}A1", math.exp(0.02), {"matmul": 1.0}) for k in range(20)]
    outside = [row(f"{chr(65 + k)}B1", math.exp(0.1), {"matmul": 1.0}, group=OUTSIDE.name) for k in range(20)]
    found = derive([*fitted, *outside]).kinds
    assert (found["matmul"], found["matmul"] + found[UNSEEN]) == pytest.approx((0.02, 0.1), abs=0.01)


def test_no_row_helps_to_make_its_own_interval() -> None:
    rows = [row("AA1", 1.01, {"matmul": 1.0}), row("BB1", 1.02, {"matmul": 1.0}), row("CC1", 1.9, {"matmul": 1.0})]
    assert left_out(rows)["CC1"] == left_out([*rows[:2], row("CC1", 1.0, {"matmul": 1.0})])["CC1"]


def test_the_fullest_tile_is_as_uncertain_as_published_verdicts_say() -> None:
    def verdict(fullness: float, measured: bool) -> dict[str, Any]:
        return {"what": "bs 1", "measured": measured, "predicted": fullness <= 1, "fullness": fullness}

    rows = [
        {"status": "judged", "workload": "a, fp16", "verdicts": [verdict(0.8, False), verdict(0.9, True), verdict(1.25, True)]},
        {"status": "judged", "workload": "b, fp8", "verdicts": [verdict(0.5, False)]},
        {"status": "reported", "workload": "c, fp16", "verdicts": [verdict(0.5, False)]},
    ]
    assert tile_bounds({"rows": rows}) == (0.8, 1.25)
    assert certain({"rows": rows}, (0.9, 1.2)) == pytest.approx(2 / 3)  # 0.9 is likely to fit


def test_a_missed_bar_is_told() -> None:
    wide = Calibration(rows=4, held=0.5, half_width=0.3, score=0.4, score_of_one_width=0.3)
    assert shortfalls({ALL: wide, OUTSIDE.name: wide}) == [
        "all rows: 50% of the measurements are inside, 70% to 90% wanted",
        "all rows: interval score 0.400, that of one width for each group is 0.300",
        "networks outside the fit: 50% of the measurements are inside, 65% to 100% wanted",
        "networks outside the fit: half-width 30.0%, at most 25% wanted",
    ]


def test_errors_are_not_written_while_their_intervals_miss_a_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        {"what": "bs 1", "measured": measured, "predicted": measured, "fullness": full} for full, measured in ((0.9, True), (1.1, False))
    ]
    rows = [row(f"{name}1", ratio, {"matmul": 1.0}, workload="a", verdicts=said) for name, ratio in (("AA", 1.0), ("BB", 1.0), ("CC", 1.9))]
    record, out = tmp_path / "record.json", tmp_path / "errors.json"
    record.write_text(json.dumps({"rows": rows}))
    assert main(["--record", str(record), "--out", str(out)]) == 1
    assert "missed: operations and inference: half-width " in capsys.readouterr().out
    assert not out.exists()


def test_the_errors_of_the_package_are_those_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = derive(judged(record), tile_bounds(record))
    assert model_errors().kinds == pytest.approx(found.kinds, abs=0.002)
    assert model_errors().tile == pytest.approx(found.tile, abs=0.001)
