"""The record of emulated pipelines: what its figures say, and that they are what the command gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, run_python

RECORD = ROOT / "benchmarks" / "results" / "pipeline_pictures.json"


def answers(record: Path) -> list[dict[str, Any]]:
    return json.loads(record.read_text(encoding="utf-8"))["answers"]


def test_the_schedules_simulation_leaves_no_rest() -> None:
    found = answers(RECORD)
    assert [(answer["model"], answer["schedule"]) for answer in found] == [
        (model, schedule) for model in ("chain", "concurrent") for schedule in ("sequential", "grouped", "interleaved")
    ]
    assert [answer["rest"] for answer in found] == [0] * 6
    for chain, concurrent in zip(found[:3], found[3:], strict=True):
        assert concurrent["emulated_cycles"] < chain["emulated_cycles"]  # one level less to pass through
    for place in (0, 3):
        sequential, grouped, interleaved = (answer["emulated_cycles"] for answer in found[place : place + 3])
        assert grouped < interleaved < sequential


@pytest.mark.slow
@pytest.mark.process
def test_the_record_and_pictures_are_what_the_command_gives(tmp_path: Path, update_golden: bool) -> None:
    pictures, record = (ROOT / "docs" / "pictures" / "schedules", RECORD) if update_golden else (tmp_path, tmp_path / "record.json")
    done = run_python("benchmarks/pipeline_pictures.py", "--directory", str(pictures), "--json", str(record))
    assert done.returncode == 0, done.stderr
    assert answers(record) == answers(RECORD)
    names = {path.name for path in pictures.glob("*.svg")}
    assert names == {path.name for path in (ROOT / "docs" / "pictures" / "schedules").iterdir()}
    assert len(names) == 6
