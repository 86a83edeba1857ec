"""Measured rows: what a file must look like, and where the conditions of a run come from."""

import csv
from pathlib import Path

import pytest

from benchmarks.measured.bars import OUTSIDE as OUTSIDE_GROUP
from benchmarks.measured.bars import group_of
from benchmarks.measured.rows import CONDITION_COLUMNS, MEASURED_COLUMNS, MEASUREMENTS, OUTSIDE, conditions_of, read_rows
from benchmarks.measured.training.conditions import read_conditions

PUBLISHED = {
    "id": "RI99",
    "generation": "C600 (IPU21)",
    "n_ipus": "1",
    "workload": "ResNet-50 inference, synthetic data on IPU",
    "shape": "3x224x224 bs 3",
    "dtype": "fp16",
    "metric": "throughput",
    "value": "6400",
    "unit": "images/s",
    "source": "graphcore/PopRT examples/resnet50/README.md (FP8-capable card = C600; IPU synthetic data)",
}


def written(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_row_without_conditions_gets_those_of_its_source(tmp_path: Path) -> None:
    (row,) = read_rows(written(tmp_path, PUBLISHED))
    assert row.conditions is not None
    assert (row.conditions.partials, row.conditions.io_tiles, row.conditions.host_io) == ("half", "0", "none")
    assert row.conditions.named_ops == {"input": "uint8"}
    assert (row.family, row.not_judged) == ("RI", "")


def test_a_row_has_the_last_word_on_its_own_conditions(tmp_path: Path) -> None:
    own = dict.fromkeys(CONDITION_COLUMNS, "") | {"implementation": "library", "partials": "float"}
    (row,) = read_rows(written(tmp_path, PUBLISHED | own))
    assert row.conditions is not None
    assert row.conditions.partials == "float"


def test_a_row_of_an_unknown_source_is_shown_but_not_judged(tmp_path: Path) -> None:
    (row,) = read_rows(written(tmp_path, PUBLISHED | {"source": "a poster"}))
    assert row.conditions is None
    assert "conditions" in row.not_judged


def test_a_row_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: id is ''"):
        read_rows(written(tmp_path, PUBLISHED | {"id": ""}))


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3: id is 'RI99'"):
        read_rows(written(tmp_path, PUBLISHED, PUBLISHED))


def test_the_published_rows_state_the_conditions_that_their_sources_have() -> None:
    with MEASUREMENTS.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 194
    for line in lines:
        conditions = conditions_of(line)
        stated = {column: line[column] for column in CONDITION_COLUMNS}
        assert stated == (
            {column: getattr(conditions, column) for column in CONDITION_COLUMNS} if conditions else dict.fromkeys(stated, "")
        )
        assert all(line[column] for column in MEASURED_COLUMNS if column not in ("unit", "dtype", "shape")), line["id"]


def test_whatever_is_judged_says_where_its_conditions_stand() -> None:
    judged = [row for row in read_rows(MEASUREMENTS) if not row.not_judged]
    assert {row.family for row in judged} == {"AMP", "MM", "ST", "RI", "RH", "RM", "PI", "CV", "HE", "BY"}
    for row in judged:
        assert row.conditions is not None
        assert row.conditions.conditions_source, row.id


def test_rows_outside_the_fit_have_a_file_of_their_own() -> None:
    fitted, outside = (read_rows(path, read_conditions()) for path in (MEASUREMENTS, OUTSIDE))
    assert {row.id for row in fitted}.isdisjoint(row.id for row in outside)
    assert [row.id for row in fitted if group_of(row) is OUTSIDE_GROUP] == []
    assert [row.id for row in outside if row.fitted or group_of(row) is not OUTSIDE_GROUP] == []
    assert [row.id for row in outside if row.conditions is None or not row.conditions.conditions_source] == []
    assert [row.id for row in outside if row.not_judged] == ["VE09"]


def test_a_row_that_says_so_is_outside_the_fit(tmp_path: Path) -> None:
    (row,) = read_rows(written(tmp_path, PUBLISHED | {"fitted": "no"}))
    assert group_of(row) is OUTSIDE_GROUP
    (row,) = read_rows(written(tmp_path, PUBLISHED | {"fitted": ""}))
    assert group_of(row) is not OUTSIDE_GROUP
