"""How sure predictions are follows from the record, and the intervals hold what was measured."""

import json
import math
from typing import Any

import pytest

from benchmarks.measured.bars import MAIN, OUTSIDE
from benchmarks.measured.sureness import (
    ALL,
    Calibration,
    certain,
    derive,
    judged,
    left_out,
    shortfalls,
    tile_bounds,
)
from benchmarks.model_errors import RECORD
from tilestep.figures.intervals import model_errors


def row(name: str, ratio: float, shares: dict[str, float], **more: Any) -> dict[str, Any]:
    fields = {"id": name, "family": name[:2], "group": MAIN.name, "status": "judged", "ratio": ratio, "shares": shares, "machine": "c600"}
    return fields | more


def test_a_kind_has_the_errors_of_the_rows_that_spend_time_on_it() -> None:
    many = [row(f"AA{k}", math.exp(0.02), {"matmul": 1.0}) for k in range(400)]
    found = derive([*many, row("BB1", math.exp(-0.3), {"reduce": 1.0})])
    assert found.kinds["matmul"] < 0.1 < found.kinds["reduce"]
    assert found.other > found.kinds["matmul"]


def test_eight_of_ten_rows_lie_within_their_interval() -> None:
    rows = [row(f"{chr(65 + k)}A1", math.exp(0.01 * k), {"matmul": 1.0}) for k in range(1, 11)]
    assert derive(rows).kinds["matmul"] == pytest.approx(0.085, abs=0.007)


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


def test_the_errors_of_the_package_are_those_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = derive(judged(record), tile_bounds(record))
    assert model_errors().kinds == pytest.approx(found.kinds, abs=0.002)
    assert model_errors().tile == pytest.approx(found.tile, abs=0.001)
