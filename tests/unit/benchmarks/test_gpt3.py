"""A model that no host could hold runs over a pod, dry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import ROOT, run_python


@pytest.mark.slow
@pytest.mark.process
def test_emulated_time_grows_linearly_in_layers_and_the_model_does_not_fit(tmp_path: Path) -> None:
    record = tmp_path / "gpt3.json"
    ended = run_python(str(ROOT / "benchmarks" / "gpt3.py"), "--layers", "8", "16", "24", "--json", str(record))
    assert ended.returncode == 0, ended.stderr
    steps = json.loads(record.read_text(encoding="utf-8"))["steps"]
    first, second, third = (step["emulated_cycles"] for step in steps)
    assert third - second == pytest.approx(second - first, rel=1e-6)  # rounding
    assert [step["fits"] for step in steps] == [False] * 3
    assert ended.stdout.count("out of memory") == 3
