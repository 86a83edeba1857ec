"""Training rows: their conditions, their stages, and the time of an update."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import training_plans
from benchmarks.measured.judge import judge
from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import MEASUREMENTS, OUTSIDE, read_rows
from benchmarks.measured.training.answers import machine_for
from benchmarks.measured.training.bert import stages_of
from benchmarks.measured.training.conditions import COLUMNS, TrainingConditions, read_conditions
from tests.processes import ROOT
from tests.unit.benchmarks.test_answers import row

CONDITIONS = read_conditions()


def small(**changes: str) -> TrainingConditions:
    """Conditions of a run on two IPUs."""
    given = {
        "model": "BERT",
        "ipus_per_replica": "2",
        "replicas": "1",
        "micro_batch": "2",
        "accumulation": "40",
        "partials": "half",
        "amp": "0.3 each",
        "optimizer": "LAMB",
        "opt_state": "m,v fp32, on chip",
        "io_tiles": "0",
        "certainty": "stated",
        **changes,
    }
    return TrainingConditions(**{column: given.get(column, "") for column in COLUMNS})


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("somewhere", "it has no list of layers"),
        ("[3,7]", "10 attentions"),
        ("[emb | 24] on IPUs [0,1,2]", "2 stages on 3 IPUs"),
        ("[8,8,8,0,0]", "it has 5"),
        ("IPU1 2/2, IPU7 22/22", "on 4 IPUs"),
        ("IPU1 23/1, IPU2 1/23", "IPU1 has 12 attentions and 12 feed-forward nets in a row of layers, not 23 and 1"),
    ],
)
def test_stages_that_cannot_be_are_refused(split: str, says: str) -> None:
    with pytest.raises(RowError, match=says):
        stages_of(split, 4, 24, "heads")


def test_every_given_row_has_conditions_that_fit_it() -> None:
    rows = {row.id: row for path in (MEASUREMENTS, OUTSIDE) for row in read_rows(path, CONDITIONS)}
    assert set(CONDITIONS) <= set(rows)
    for name, conditions in CONDITIONS.items():
        if not conditions.not_judged:
            assert conditions.num_ipus == rows[name].n_ipus, name
            assert machine_for(rows[name])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicas": "4"}, "the row is of 2 IPUs, but its conditions are of 8"),
        ({"model": "a network that nobody knows"}, "a network that is not written in benchmarks/models"),
        ({"certainty": "unknown", "note": "two could be"}, "configuration is not known: two could be"),
        ({"micro_batch": "4 or 6", "model": "BERT-Base", "seq_len": "128", "stage_split": "[6,6]"}, "micro_batch is '4 or 6'"),
    ],
)
def test_what_cannot_be_run_is_left_out_with_the_reason(changes: dict[str, str], says: str) -> None:
    found = judge(replace(row("x train", n_ipus=2, generation="Bow"), training=small(**changes)))
    assert found.status == "left out"
    assert says in found.reason
    assert not found.failed


def test_conditions_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "conditions.csv"
    path.write_text("id,model\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no column 'ipus_per_replica'"):
        read_conditions(path)
    header = ",".join(COLUMNS)
    path.write_text(f"{header}\nA1{',' * (len(COLUMNS) - 1)}\nA1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3: id is 'A1'"):
        read_conditions(path)
    fields = ["A1", "", "", "", "as B7"] + [""] * (len(COLUMNS) - 5)
    path.write_text(f"{header}\n{','.join(fields)}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="A1 has the stages of 'B7'"):
        read_conditions(path)
    for rate in ("many", "nan", "0", "-1"):
        path.write_text(f"{header}\nA1{',' * (len(COLUMNS) - 1)}{rate}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=f"line 2, row A1: steady_rate_items_per_s is '{rate}'"):
            read_conditions(path)


def test_the_plans_of_the_record_fit_and_take_as_long_as_planned() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "training_plans.json").read_text(encoding="utf-8"))["rows"]
    assert [row["model"] for row in rows] == list(training_plans.SEARCHES)
    assert all(map(training_plans.is_good, rows))
