"""The list of public TensorFlow programs, its record, and the page that shows it say the same."""

from __future__ import annotations

import json

from benchmarks import tensorflow_judge
from tests.processes import ROOT


def test_the_record_has_each_program_of_the_list_with_a_result_and_a_reason() -> None:
    listed = tensorflow_judge.programs()
    record = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))
    assert [row["program"] for row in record["answers"]] == [tensorflow_judge.path_of(row) for row in listed]
    for row, answer in zip(listed, record["answers"], strict=True):
        assert answer["arguments"] == row["arguments"]
        assert (answer["result"] == "excluded") == bool(row["excluded"])
        assert answer["result"] == "ran" or answer["why"]
    assert record["counts"] == tensorflow_judge.counts(record["answers"])
    assert len(listed) >= 40
    assert record["counts"]["excluded"] <= len(listed) / 4


def test_the_page_shows_the_record() -> None:
    page = (ROOT / "docs" / "reference" / "tensorflow-programs.md").read_text(encoding="utf-8")
    assert page.endswith(f"{tensorflow_judge.table()}\n")
    counts = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))["counts"]
    words = "Of {programs} programs {excluded} are excluded. Of the other {judged}, {ran} run to their end; {nothing_on_ipu} of these"
    assert words.format(**counts) in page


def test_a_failure_is_told_by_its_exception() -> None:
    said = "Traceback:\n  File x\nValueError: no such size\n\ntilestep: nothing ran on bow-2000\n"
    assert tensorflow_judge.reason(said) == "ValueError: no such size"
    assert tensorflow_judge.reason("killed\n") == "killed"
