"""The layers of `gpt_layers` are the GPT of `gpt`, and the plans of the record fit and take as long as they were planned to."""

from __future__ import annotations

import json

from benchmarks import training_plans
from tests.processes import ROOT


def test_the_plans_of_the_record_fit_and_take_as_long_as_planned() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "training_plans.json").read_text(encoding="utf-8"))["rows"]
    assert [row["model"] for row in rows] == list(training_plans.SEARCHES)
    assert all(map(training_plans.is_good, rows))
